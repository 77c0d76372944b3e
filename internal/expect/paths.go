package expect

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link matches the targets of links in Markdown, HTML and SVG.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)

// Paths checks the paths in files that a command wrote, which was run in the directory from with relative arguments. It
// fails the test for one that means nothing to a reader elsewhere: a relative path that exists in from but not next to
// the file, a link that leads to nothing, an absolute path below from that does not exist. typed are the JSON keys that
// repeat what the user typed. It returns the number of paths and links that hold.
func Paths(t testing.TB, from string, written []string, typed ...string) (hold int) {
	t.Helper()
	check := func(file, where, value string) {
		next := filepath.Join(filepath.Dir(file), value)
		switch {
		case value == "" || value == "." || strings.Contains(value, "://"):
		case filepath.IsAbs(value) && strings.HasPrefix(value, from) && !exists(value):
			t.Errorf("%s: %s %q does not exist", file, where, value)
		case filepath.IsAbs(value) && strings.HasPrefix(value, from), exists(next):
			hold++
		case where == "link":
			t.Errorf("%s: the link %q leads to nothing", file, value)
		case !filepath.IsAbs(value) && exists(filepath.Join(from, value)):
			t.Errorf("%s: %s %q is a path that only the writer's directory makes one", file, where, value)
		}
	}
	for _, root := range written {
		err := filepath.WalkDir(filepath.Join(from, root), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if d.Type()&fs.ModeSymlink != 0 {
				target, err := os.Readlink(file)
				check(file, "link", target)
				return err
			}
			switch text := Read(t, file); filepath.Ext(file) {
			case ".json", ".jsonl", ".log":
				for line := range strings.Lines(text) {
					if i := strings.IndexByte(line, '{'); i > 0 { // after the checksum of a journal's line
						eachText(line[i:], typed, func(key, value string) { check(file, key, value) })
					}
				}
				eachText(text, typed, func(key, value string) { check(file, key, value) })
			case ".md", ".html", ".svg":
				for _, m := range link.FindAllStringSubmatch(text, -1) {
					target, _, _ := strings.Cut(m[1]+m[2], "#")
					if !strings.HasPrefix(target, "data:") {
						check(file, "link", target)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return hold
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// eachText calls f for each text in JSON values that follow each other, and for each of its words, with the innermost
// key. It leaves out what is below the keys of skip.
func eachText(text string, skip []string, f func(key, value string)) {
	var visit func(key string, v any)
	visit = func(key string, v any) {
		switch v := v.(type) {
		case string:
			f(key, v)
			for word := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(" ,;()'\"`=\n", r) }) {
				if word != v {
					f(key, strings.TrimRight(word, ":."))
				}
			}
		case []any:
			for _, one := range v {
				visit(key, one)
			}
		case map[string]any:
			for name, one := range v {
				if !slices.Contains(skip, name) {
					visit(name, one)
				}
			}
		}
	}
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		if d.Decode(&v) != nil {
			return
		}
		visit("", v)
	}
}
