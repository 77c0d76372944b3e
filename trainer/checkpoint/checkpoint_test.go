package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// content returns what the tests put into a checkpoint: names that need care, an empty file, and a file in a directory.
func content(step int) map[string]string {
	r := rand.New(rand.NewPCG(uint64(step), 1))
	long := make([]byte, 3000+r.IntN(3000))
	for i := range long {
		long[i] = byte(r.Uint32())
	}
	return map[string]string{
		"state.json":            fmt.Sprintf(`{"step": %d}`, step),
		"model.safetensors":     string(long),
		"optimizer/part 1.bin":  string(long[:700]),
		"  a name, *with* this": "x",
		"größe":                 "é",
		"README":                "capital letters",
		"empty":                 "",
	}
}

func filler(files map[string]string) func(dir string) error {
	return func(dir string) error {
		for name, data := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
				return err
			}
		}
		return nil
	}
}

func write(t *testing.T, root string, step int) {
	t.Helper()
	expect.OK(t, Write(root, step, filler(content(step))))
}

// read returns every file below a directory except SHA256SUMS.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, _, err := files(dir)
	expect.OK(t, err)
	found := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.OK(t, err)
		if name != sumsName {
			found[name] = string(data)
		}
	}
	return found
}

// names returns the names in a directory, including hidden ones.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestWrite(t *testing.T) {
	root := filepath.Join(t.TempDir(), "my run", "checkpoints")
	for _, step := range []int{0, 7, 999999, 1234567} {
		write(t, root, step)
	}
	want := []string{"step-000000", "step-000007", "step-1234567", "step-999999"}
	if diff := cmp.Diff(want, names(t, root)); diff != "" {
		t.Error(diff)
	}
	found, err := Latest(root)
	if err != nil || found.Step != 1234567 || found.Dir != Dir(root, 1234567) || found.Skipped != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if diff := cmp.Diff(content(1234567), read(t, found.Dir)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(found.Dir)
	if err != nil || info.Mode().Perm()&0o500 != 0o500 {
		t.Error(info.Mode(), err)
	}
	if sum, err := exec.LookPath("sha256sum"); err == nil {
		cmd := exec.Command(sum, "--check", "--strict", sumsName)
		cmd.Dir = found.Dir
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK\n")) != len(content(0)) {
			t.Errorf("sha256sum: %v\n%s", err, out)
		}
	}
}

// TestWrite_SameStepAgain writes a step again with other files, as a resumed run does.
func TestWrite_SameStepAgain(t *testing.T) {
	root := t.TempDir()
	write(t, root, 5)
	other := map[string]string{"state.json": "other", "new": "1"}
	expect.OK(t, Write(root, 5, filler(other)))
	best := filepath.Join(root, "best")
	for _, files := range []map[string]string{content(1), other} {
		expect.OK(t, Replace(best, filler(files)))
		if err := Open(best); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(files, read(t, best)); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(other, read(t, Dir(root, 5))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"best", "step-000005"}, names(t, root)); diff != "" {
		t.Error(diff)
	}
}

// TestWriteFails checks that a failed attempt leaves the existing checkpoint as it was, and no files of its own.
func TestWriteFails(t *testing.T) {
	mine := errors.New("no such layer")
	for _, c := range []struct {
		name string
		fill func(dir string) error
		want []string
	}{
		{"fill fails", func(dir string) error { filler(content(1))(dir); return mine },
			[]string{"step-000005", "no such layer"}},
		{"a quota", func(dir string) error {
			filler(map[string]string{"a": strings.Repeat("a", 1<<20), "b/c": strings.Repeat("c", 1<<19)})(dir)
			return fmt.Errorf("state: %w", unix.EDQUOT)
		}, []string{"state: ", "the disk was full after 1.5 MiB, and now ", "earlier checkpoints are intact"}},
		{"a disk that is full", func(string) error { return fmt.Errorf("state: %w", unix.ENOSPC) },
			[]string{"state: ", "the disk was full after 0.0 MiB"}},
		{"a disk that is read-only", func(string) error { return fmt.Errorf("state: %w", unix.EROFS) },
			[]string{"state: ", "choose a directory that can be written"}},
		{"no permission", func(string) error { return fmt.Errorf("state: %w", fs.ErrPermission) },
			[]string{"state: ", "choose a directory that can be written"}},
		{"nothing written", func(string) error { return nil }, []string{"nothing was written"}},
		{"only directories", func(dir string) error { return os.Mkdir(filepath.Join(dir, "a"), 0o777) },
			[]string{"nothing was written"}},
		{"a link", func(dir string) error { return os.Symlink("/etc/hostname", filepath.Join(dir, "a")) },
			[]string{`"a" is not a regular file`}},
		{"a name with a newline", filler(map[string]string{"a\nb": ""}), []string{`"a\nb"`}},
		{"a name with a backslash", filler(map[string]string{`a\b`: ""}), []string{"cannot be the name"}},
		{"its own checksums", filler(map[string]string{sumsName: ""}), []string{sumsName}},
		{"the directory goes", os.RemoveAll, []string{"no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, 5)
			err := Write(root, 5, c.fill)
			expect.Error(t, err, c.want...)
			if c.name == "fill fails" && !errors.Is(err, mine) {
				t.Error("the cause is lost")
			}
			if err := Open(Dir(root, 5)); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"step-000005"}, names(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
	expect.Error(t, Write(t.TempDir(), -1, filler(content(0))), "-1")
}

func TestLatestSkips(t *testing.T) {
	root := t.TempDir()
	if _, err := Latest(filepath.Join(root, "none")); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	for step := 1; step <= 4; step++ {
		write(t, root, step)
	}
	// Names that are not checkpoint names are ignored.
	for _, name := range []string{"step-7", "step-0000009", "step--00001", "step-99999999999999999999", "best",
		".writing-"} {
		expect.OK(t, os.Mkdir(filepath.Join(root, name), 0o777))
	}
	expect.OK(t, os.WriteFile(Dir(root, 6), nil, 0o666))
	damage := func(step int) {
		expect.OK(t, os.WriteFile(filepath.Join(Dir(root, step), "state.json"), []byte(`{"step": 0}`), 0o666))
	}
	damage(4)
	damage(3)
	before := names(t, root)
	found, err := Latest(root)
	if err != nil || found.Step != 2 || found.Dir != Dir(root, 2) {
		t.Fatalf("found %+v, %v", found, err)
	}
	if len(found.Skipped) != 3 || found.Skipped[0].Dir != Dir(root, 6) || found.Skipped[1].Dir != Dir(root, 4) ||
		found.Skipped[2].Dir != Dir(root, 3) {
		t.Fatalf("skipped %+v", found.Skipped)
	}
	expect.Error(t, found.Skipped[0].Why, Dir(root, 6), "not a directory")
	expect.Error(t, found.Skipped[1].Why, Dir(root, 4), "state.json", "damaged")
	damage(2)
	damage(1)
	found, err = Latest(root)
	if !errors.Is(err, ErrNone) || len(found.Skipped) != 5 || found.Dir != "" {
		t.Errorf("found %+v, %v", found, err)
	}
	expect.Error(t, err, Dir(root, 1), Dir(root, 4))
	if diff := cmp.Diff(before, names(t, root)); diff != "" {
		t.Error("something was removed:", diff)
	}
}

func TestKeep(t *testing.T) {
	unwhole := func(dir string) error { return os.Remove(filepath.Join(dir, "state.json")) }
	damaged := func(dir string) error { return os.WriteFile(filepath.Join(dir, "state.json"), []byte("x"), 0o666) }
	for _, c := range []struct {
		name    string
		spoil   map[int]func(dir string) error
		n       int
		removed []int // of steps 1 to 5
		err     string
	}{
		{"all sound", nil, 2, []int{3, 2, 1}, ""},
		{"enough room", nil, 5, nil, ""},
		{"more than enough", nil, 9, nil, ""},
		{"none", nil, 0, nil, "at least 1"},
		{"the newest is not whole", map[int]func(string) error{5: unwhole}, 2, []int{2, 1}, ""},
		{"an old one is not whole", map[int]func(string) error{1: unwhole}, 1, []int{4, 3, 2}, ""},
		{"the newest is damaged", map[int]func(string) error{5: damaged}, 2, []int{3, 2, 1}, ""},
		{"those to keep are damaged", map[int]func(string) error{5: damaged, 4: damaged}, 2, []int{2, 1}, ""},
		{"only the oldest is sound", map[int]func(string) error{5: damaged, 4: damaged, 3: damaged, 2: damaged}, 1,
			[]int{4, 3, 2}, ""},
		{"none is sound", map[int]func(string) error{5: damaged, 4: damaged, 3: damaged, 2: damaged, 1: damaged}, 1, nil,
			"nothing was deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			want := map[int]bool{}
			for step := 1; step <= 5; step++ {
				write(t, root, step)
				want[step] = !slices.Contains(c.removed, step)
				if spoil := c.spoil[step]; spoil != nil {
					expect.OK(t, spoil(Dir(root, step)))
				}
			}
			removed, err := Keep(root, c.n)
			if c.err != "" {
				expect.Error(t, err, c.err)
			} else if err != nil {
				t.Fatal(err)
			}
			var dirs, left []string
			for _, step := range c.removed {
				dirs = append(dirs, Dir(root, step))
			}
			for step := 1; step <= 5; step++ {
				if want[step] {
					left = append(left, stepName(step))
				}
			}
			if diff := cmp.Diff(dirs, removed); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(left, names(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if removed, err := Keep(filepath.Join(t.TempDir(), "none"), 1); err != nil || removed != nil {
		t.Error(removed, err)
	}
}
