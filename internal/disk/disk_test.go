package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestStageAndCommit(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		}
	}
	for _, s := range []string{"old", "new"} { // the second takes the first one's place
		if err := Stage(root, "x.tmp", text(s)); err != nil {
			t.Fatal(err)
		}
		if err := Commit(root, "x.tmp", "x"); err != nil {
			t.Fatal(err)
		}
	}
	// What goes wrong leaves nothing behind, and the file as it was.
	broken := errors.New("broken")
	if err := Stage(root, "x.tmp", func(w io.Writer) error { return errors.Join(text("half")(w), broken) }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Stage(root, "y.tmp", text("y")); err != nil {
		t.Fatal(err)
	}
	if err := Commit(root, "y.tmp", "folder"); err == nil {
		t.Error("a folder was replaced")
	}
	// And nothing is written beside the root.
	if err := Stage(root, "../x.tmp", text("x")); err == nil {
		t.Error("written outside")
	}
	names, err := fs.Glob(os.DirFS(dir), "*")
	if data, _ := os.ReadFile(filepath.Join(dir, "x")); err != nil || string(data) != "new" || len(names) != 2 {
		t.Errorf("%q, %q, %v", names, data, err)
	}
}

func TestFree(t *testing.T) {
	if n, ok := Free(t.TempDir()); ok && n == 0 {
		t.Skip("the disk is full")
	} else if !ok {
		t.Error("not known")
	}
	if _, ok := Free(filepath.Join(t.TempDir(), "none")); ok {
		t.Error("known of a folder that is not there")
	}
}
