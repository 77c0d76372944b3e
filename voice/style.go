package voice

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

//go:embed styles/*.style
var builtin embed.FS

// Style is a voice: what a teacher is told, how its prose is scored, and the phrases that the built-in composer writes
// with. It is read from a style file (see the package documentation) and not changed afterwards, so any number of
// goroutines may use it.
type Style struct {
	Name   string // a short name, such as "passive-aggressive"
	About  string // one line on what the voice is
	SHA256 string // of the file's bytes, in hexadecimal

	MinScore int        // the least tone score that is in the voice; default 3
	MinCues  int        // the least number of distinct cues; default 2
	Density  [2]float64 // cues per 100 words, least and most; default 0.5 to 40
	Words    [2]int     // words of prose in an answer, least and most; default 25 to 220

	System    string    // the system prompt for a teacher model
	Openers   []string  // keys of the openers (see Opener), in file order
	Devices   []Device  // ways of saying it
	Examples  []Example // few-shot examples
	Skeletons []string  // orders of blocks, as written in the file; an Assignment names one by its index

	told      map[uint64]bool // shingles of System
	lexicon   lexicon
	banned    lexicon
	pools     map[string][]*phrase // by block name
	openings  map[string][]*phrase // the block "opener", by opener key
	skeletons [][]string           // the words of Skeletons
	marks     int                  // how many marked words the phrases have; see phrase.marks
}

// Device is a rhetorical device and the instruction that has a teacher use it.
type Device struct{ Name, Instruction string }

// Example is one few-shot example: a question, the code of its answer, and the answer in the voice around the
// placeholder [[CODE_1]].
type Example struct{ Device, Question, Code, Rewrite string }

// Names returns the names of the built-in styles, the default one first.
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

// Default is the name of the style that is used when none is asked for.
const Default = "passive-aggressive"

// maxFile is the largest style file that is read, in bytes; the built-in ones are far smaller.
const maxFile = 4 << 20

// Builtin returns a built-in style by its name.
func Builtin(name string) (*Style, error) {
	src, err := builtin.ReadFile("styles/" + name + ".style")
	if err != nil {
		return nil, fmt.Errorf("no built-in style %q: use %s, or the path of a style file", name, strings.Join(Names(), " or "))
	}
	return Parse(name+".style", src)
}

// Load returns the built-in style of that name, or else the style in the file at that path.
func Load(nameOrPath string) (*Style, error) {
	for _, name := range Names() {
		if name == nameOrPath {
			return Builtin(name)
		}
	}
	info, err := os.Stat(nameOrPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("style %q is neither a file nor built in: use %s, or the path of a style file: %w",
			nameOrPath, strings.Join(Names(), " or "), err)
	case err != nil:
		return nil, fmt.Errorf("style %q: %w", nameOrPath, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("style %q is not a regular file: give the path of a style file", nameOrPath)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("style %q has %d bytes: a style file has at most %d", nameOrPath, info.Size(), maxFile)
	}
	src, err := os.ReadFile(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("style %q: %w", nameOrPath, err)
	}
	return Parse(nameOrPath, src)
}
