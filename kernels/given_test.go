package kernels

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda"
)

// A Given is what launches pass as one parameter of a kernel.
type Given struct {
	Pointer  bool
	Nullable bool            // the source asks whether the pointer is NULL
	Values   map[uint64]bool // of a pointer: 0 and 1
}

// EveryGiven returns what f passes to kernels, by "op_rmsnorm.cu rmsnorm eps", on GPUs of three generations. It needs
// no GPU, because nothing is computed.
func EveryGiven(t *testing.T, f func(d *Device) error) map[string]*Given {
	t.Helper()
	all, names := parameters(t)
	for _, major := range []int{7, 8, 9} {
		for _, l := range launches(t, cuda.Properties{Major: major}, Options{}, f) {
			id := l.source + " " + l.name
			for i, word := range l.words {
				g := all[id+" "+names[id][i]]
				if g.Pointer {
					word = min(word, 1)
				}
				g.Values[word] = true
			}
		}
	}
	return all
}

// parameters returns the parameters of all kernels but maps of tiles, and the names of each kernel's in order.
func parameters(t *testing.T) (all map[string]*Given, names map[string][]string) {
	t.Helper()
	all, names = map[string]*Given{}, map[string][]string{}
	for _, f := range sourceFiles(t) {
		source := sourceText(t, f)
		shared := ""
		for seen, list := map[string]bool{}, includes(source); len(list) > 0; list = list[1:] {
			if !seen[list[0]] {
				seen[list[0]] = true
				text := sourceText(t, list[0])
				shared, list = shared+text, append(list, includes(text)...)
			}
		}
		found := kernelText.FindAllStringSubmatchIndex(source, -1)
		for i, at := range found {
			id, end := f+" "+source[at[2]:at[3]], len(source)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			for p := range strings.SplitSeq(source[at[4]:at[5]], ",") {
				if strings.Contains(p, "TileMap") {
					continue
				}
				name := lastWord.FindString(p)
				g := &Given{Pointer: strings.Contains(p, "*"), Values: map[uint64]bool{}}
				asks := regexp.MustCompile(fmt.Sprintf(`\b%[1]s \? |!%[1]s\b|if \(%[1]s\)|\(%[1]s (&&|\|\|)`, name))
				// a short name in a header is another variable
				g.Nullable = g.Pointer && (asks.MatchString(source[at[1]:end]) || len(name) > 3 && asks.MatchString(shared))
				all[id+" "+name], names[id] = g, append(names[id], name)
			}
		}
	}
	return all, names
}

// sourceText returns a source without comments.
func sourceText(t *testing.T, name string) string {
	t.Helper()
	text, err := sources.ReadFile(name)
	expect.OK(t, err)
	return commentText.ReplaceAllString(string(text), "")
}

func includes(source string) (names []string) {
	for _, m := range includeText.FindAllStringSubmatch(source, -1) {
		names = append(names, "include/"+m[1])
	}
	return names
}

var (
	includeText = regexp.MustCompile(`#include "(.*)"`)
	lastWord    = regexp.MustCompile(`\w+$`)
)
