package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWidth_OfCAndCUDA checks that lines of C and CUDA have at most 120 columns, as golangci-lint checks for Go. A tab
// counts as one column.
func TestWidth_OfCAndCUDA(t *testing.T) {
	const root, width = "../..", 120
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata"):
			return filepath.SkipDir
		case !slices.Contains([]string{".c", ".h", ".cu", ".cuh", ".cpp"}, filepath.Ext(path)):
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		number := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			if number++; utf8.RuneCountInString(line) > width {
				t.Errorf("%s:%d has %d columns, more than %d", path, number, utf8.RuneCountInString(line), width)
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files: %v", files, err)
	}
}
