package voice

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"restyle/internal/disk"
)

//go:embed styles/*.style
var builtin embed.FS

// A Style is a voice: what a teacher is told, how prose is scored, and the phrases that Compose uses. It comes from a
// style file (see the package documentation) and does not change, so several goroutines may use it at once.
type Style struct {
	Name   string // a short name, such as "passive-aggressive"
	About  string // one line that describes the voice
	SHA256 string // of the file's bytes, in hexadecimal

	MinScore int        // minimum tone score in the voice; default 3
	MinCues  int        // minimum number of distinct cues; default 2
	Density  [2]float64 // cues per 100 words, minimum and maximum; default 0.5 and 40
	Repeat   [2]float64 // percentages of rows that may share a sentence, and eight words in a row; default 3 and 8
	Words    [2]int     // words of prose in an answer, minimum and maximum; default 25 and 220

	System    string    // the system prompt for a teacher model
	Openers   []string  // keys of the openers (see Text.Opener), in file order
	Devices   []Device  // rhetorical devices
	Examples  []Example // few-shot examples
	Skeletons []string  // orders of blocks around code, as in the file; an Assignment names one by its index

	told      map[uint64]bool   // shingles of System
	pairs     map[classPair]int // in System and the examples; see Order
	lexicon   lexicon
	banned    lexicon
	pools     map[string][]*phrase // by block name
	openings  map[string][]*phrase // the block "opener", by opener key
	skeletons [][]string           // the words of Skeletons
	answers   [][]string           // the words of the skeletons for answers in words
	marks     int                  // number of marked words in all phrases; see phrase.marks
}

// A Device is a rhetorical device and the instruction by which a teacher uses it.
type Device struct{ Name, Instruction string }

// An Example is a few-shot example: a question, the code of its answer, and the answer in the voice, with the
// placeholder [[CODE_1]] for the code.
type Example struct{ Device, Question, Code, Rewrite string }

// Names returns the names of the built-in styles, the default first.
func Names() []string {
	names := []string{Default}
	files, _ := fs.Glob(builtin, "styles/*.style")
	for _, f := range files {
		if name := strings.TrimSuffix(path.Base(f), ".style"); name != Default {
			names = append(names, name)
		}
	}
	return names
}

// Default is the name of the default style.
const Default = "passive-aggressive"

// maxFile is the maximum size of a style file, in bytes; the built-in ones are far smaller.
const maxFile = 4 << 20

// parsed has the built-in styles that were requested, by name: a program parses each only once.
var parsed sync.Map

// Builtin returns the built-in style of that name. Calls with the same name return styles that share what their
// fields point to.
func Builtin(name string) (*Style, error) {
	if style, ok := parsed.Load(name); ok {
		own := *style.(*Style)
		return &own, nil
	}
	src, err := builtin.ReadFile("styles/" + name + ".style")
	if err != nil {
		return nil, fmt.Errorf("style %q: not built in: use %s, or the path of a style file", name,
			strings.Join(Names(), " or "))
	}
	style, err := Parse(name+".style", src)
	if err != nil {
		return nil, err
	}
	parsed.Store(name, style)
	own := *style
	return &own, nil
}

// Load returns the built-in style of that name or, if there is none, the style in the file at that path.
func Load(nameOrPath string) (*Style, error) {
	for _, name := range Names() {
		if name == nameOrPath {
			return Builtin(name)
		}
	}
	src, err := disk.ReadInput(nameOrPath, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("style %q: neither a file nor built in: use %s, or the path of a style file: %w",
			nameOrPath, strings.Join(Names(), " or "), err)
	case err != nil:
		return nil, fmt.Errorf("style %q: %w", nameOrPath, err)
	}
	return Parse(nameOrPath, src)
}
