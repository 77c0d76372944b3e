package checkpoint

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestBitFlips flips single bits in every file, including SHA256SUMS, and checks that each flip is found and the
// previous checkpoint is used.
func TestBitFlips(t *testing.T) {
	flips := 2000
	if testing.Short() {
		flips = 200
	}
	root := t.TempDir()
	write(t, root, 1)
	write(t, root, 2)
	dir := Dir(root, 2)
	var paths []string
	names, _, err := files(dir)
	expect.OK(t, err)
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() > 0 {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range flips {
		path := paths[i%len(paths)]
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		expect.OK(t, err)
		info, err := f.Stat()
		expect.OK(t, err)
		bit := r.Int64N(8 * info.Size())
		turnOver(t, f, bit)
		if err := Open(dir); err == nil {
			t.Fatalf("bit %d of %s turned over goes by", bit, path)
		}
		if i < len(paths) {
			found, err := Latest(root)
			if err != nil || found.Step != 1 || len(found.Skipped) != 1 || found.Skipped[0].Dir != dir {
				t.Fatalf("bit %d of %s turned over: found %+v, %v", bit, path, found, err)
			}
		}
		turnOver(t, f, bit)
		f.Close()
	}
	if err := Open(dir); err != nil {
		t.Error("put right again:", err)
	}
}

func turnOver(t *testing.T, f *os.File, bit int64) {
	t.Helper()
	var b [1]byte
	_, err := f.ReadAt(b[:], bit/8)
	if err == nil {
		b[0] ^= 1 << (bit % 8)
		_, err = f.WriteAt(b[:], bit/8)
	}
	expect.OK(t, err)
}

// TestTruncated truncates every file to every shorter length.
func TestTruncated(t *testing.T) {
	root := t.TempDir()
	write(t, root, 1)
	dir := Dir(root, 1)
	cuts := 0
	names, _, err := files(dir)
	expect.OK(t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		expect.OK(t, err)
		stride := 1 + len(whole)/500
		for n := len(whole) - 1; n >= 0; n -= stride {
			expect.OK(t, os.Truncate(path, int64(n)))
			if err := Open(dir); err == nil {
				t.Fatalf("%s cut to %d of %d bytes goes by", name, n, len(whole))
			}
			cuts++
		}
		overwrite(t, path, append(whole[:len(whole):len(whole)], 0))
		if err := Open(dir); err == nil {
			t.Fatalf("%s with a byte more goes by", name)
		}
		overwrite(t, path, whole)
	}
	if err := Open(dir); err != nil || cuts < 1000 {
		t.Errorf("after %d cuts, put right again: %v", cuts, err)
	}
}

// overwrite changes a file in place, as damage does.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, data, 0o666))
}

func TestLatest_StrangeFiles(t *testing.T) {
	rename := func(from, to string) func(dir string) error {
		return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
	}
	sums := func(change func(string) string) func(dir string) error {
		return func(dir string) error {
			data, err := os.ReadFile(filepath.Join(dir, sumsName))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, sumsName), []byte(change(string(data))), 0o666)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"a file is missing", func(dir string) error { return os.Remove(filepath.Join(dir, "empty")) }, "empty is missing"},
		{"a directory is missing", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "optimizer")) },
			"optimizer/part 1.bin is missing"},
		{"a file too many", func(dir string) error { return os.WriteFile(filepath.Join(dir, "note"), nil, 0o666) },
			"unexpected file note"},
		{"a file too many in a directory", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "optimizer/note"),
				nil, 0o666)
		}, "unexpected file optimizer/note"},
		{"a file renamed", rename("größe", "groesse"), "größe is missing"},
		{"two files swapped", func(dir string) error {
			for _, r := range [][2]string{{"state.json", "t"}, {"model.safetensors", "state.json"}, {"t", "model.safetensors"}} {
				if err := rename(r[0], r[1])(dir); err != nil {
					return err
				}
			}
			return nil
		}, "model.safetensors does not have the checksum"},
		{"a file of another step", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte(content(2)["model.safetensors"]), 0o666)
		}, "model.safetensors does not have the checksum"},
		{"the checksums of another step", func(dir string) error {
			other, err := os.ReadFile(filepath.Join(dir, "../step-000002", sumsName))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, sumsName), other, 0o666)
		}, "does not have the checksum"},
		{"a link to the same bytes", func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "größe"), filepath.Join(dir, "../moved")); err != nil {
				return err
			}
			return os.Symlink("../moved", filepath.Join(dir, "größe"))
		}, "not a regular file"},
		{"a directory in a file's place", func(dir string) error {
			if err := os.Remove(filepath.Join(dir, "empty")); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(dir, "empty"), 0o777)
		}, "empty is missing"},
		{"no checksums", func(dir string) error { return os.Remove(filepath.Join(dir, sumsName)) }, "missing SHA256SUMS"},
		{"a line less", sums(func(s string) string { return s[strings.Index(s, "\n")+1:] }), "unexpected file"},
		{"a line twice", sums(func(s string) string { return s[:strings.Index(s, "\n")+1] + s }), "out of order"},
		{"a very long list", sums(func(string) string { return strings.Repeat("x", 2*maxSums) }), "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, 1)
			write(t, root, 2)
			expect.OK(t, c.spoil(Dir(root, 1)))
			expect.Error(t, Open(Dir(root, 1)), Dir(root, 1), c.want)
		})
	}
	expect.Error(t, Open(filepath.Join(t.TempDir(), "none")), "none", "no such file")
}

func TestParseSums(t *testing.T) {
	zero := strings.Repeat("0", 64)
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"\n", "line 1"},
		{zero + "  a", "incomplete"},
		{zero + "  \n", "line 1 is not a checksum, two spaces"},
		{zero + " \n", "line 1 is not a checksum, two spaces"},
		{zero + "\n", "line 1 is not a checksum, two spaces"},
		{zero + " *a\n", "line 1"},
		{zero + " a\n", "line 1"},
		{zero[1:] + "g  a\n", "hexadecimal"},
		{zero[1:] + "A  a\n", "hexadecimal"},
		{zero[1:] + "  ab\n", "line 1"},
		{zero + "  a\n\n", "line 2"},
		{zero + "  b\n" + zero + "  a\n", "order"},
		{zero + "  a\n" + zero + "  a\n", "order"},
		{zero + "  ..\n", "cannot be the name"},
		{zero + "  ../a\n", "cannot be the name"},
		{zero + "  a/../../b\n", "cannot be the name"},
		{zero + "  /etc/passwd\n", "cannot be the name"},
		{zero + "  a//b\n", "cannot be the name"},
		{zero + "  a/\n", "cannot be the name"},
		{zero + "  ./a\n", "cannot be the name"},
		{zero + "  .\n", "cannot be the name"},
		{zero + "  a\x00b\n", "cannot be the name"},
		{zero + "  a\r\n", "cannot be the name"},
		{zero + "  a\\b\n", "cannot be the name"},
		{zero + "  \xff\n", "cannot be the name"},
		{zero + "  SHA256SUMS\n", "lists itself"},
		{"\\" + zero + "  a\n", "line 1"},
	} {
		_, err := parseSums([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestFilesInOrder has names whose order by bytes differs from the directories' order.
func TestFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/x", "a.b", "a-b/y", "b"} {
		path := filepath.Join(dir, name)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)))
	}
	names, dirs, err := files(dir)
	if err != nil || strings.Join(names, " ") != "a-b/y a.b a/x b" || len(dirs) != 3 || dirs[0] != dir {
		t.Errorf("%q, %q, %v", names, dirs, err)
	}
}

func FuzzParseSums(f *testing.F) {
	zero := strings.Repeat("0", 64)
	for _, s := range []string{"", zero + "  a\n", zero + "  a\n" + zero + "  b/c d\n", zero + "  ../a\n", zero + " *a\n",
		"x"} {
		f.Add([]byte(s))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := hostile.Parse(t, data, parseSums)
		if err != nil {
			if len(err.Error()) > 300+4*len(data) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if got := string(formatSums(entries)); got != string(data) {
			t.Errorf("%q is read as %q", data, got)
		}
		for _, e := range entries {
			if !filepath.IsLocal(e.name) || filepath.Clean(e.name) != e.name || strings.ContainsAny(e.name, "\x00\n\r\\") {
				t.Errorf("accepted %q", e.name)
			}
		}
	})
}
