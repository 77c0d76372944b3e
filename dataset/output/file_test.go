package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/disk"
	"restyle/internal/expect"
)

func TestCommit_Outcomes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	certs := dataset.CertificatePath(path)
	if d := save(t, path, someRows(5)); d.Data.State != disk.Written || d.Certificates.State != disk.Written {
		t.Errorf("first: %+v", d)
	}
	first := expect.Read(t, path)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	expect.OK(t, errors.Join(os.Chtimes(path, old, old), os.Chtimes(certs, old, old)))
	if d := save(t, path, someRows(5)); d.Data.State != disk.Unchanged || d.Certificates.State != disk.Unchanged {
		t.Errorf("again: %+v", d)
	}
	for _, p := range []string{path, certs} {
		if info, err := os.Stat(p); err != nil || !info.ModTime().Equal(old) {
			t.Errorf("%s was touched: %v, %v", p, info.ModTime(), err)
		}
	}
	if d := save(t, path, someRows(6)); d.Data.State != disk.Replaced || d.Certificates.State != disk.Replaced {
		t.Errorf("other rows: %+v", d)
	}
	if expect.Read(t, path+".bak") != first {
		t.Error("the .bak is not the file before")
	}
	second := expect.Read(t, path)
	if d := save(t, path, someRows(7)); d.Data.State != disk.Replaced || expect.Read(t, path+".bak.2") != second ||
		expect.Read(t, path+".bak") != first {
		t.Errorf("the .bak.2 is not the file just before: %+v", d)
	}
	// The file has the same length but other bytes.
	rows := someRows(7)
	rows[6].Instruction = "Tusk 6"
	if d := save(t, path, rows); d.Data.State != disk.Replaced {
		t.Errorf("one letter: %+v", d)
	}
	var want []string
	for _, name := range []string{"out.certificates.jsonl", "out.json"} {
		want = append(want, name, name+".bak", name+".bak.2", name+".bak.3")
	}
	if got := folder(t, dir); !slices.Equal(got, want) {
		t.Errorf("left behind: %q", got)
	}
}

func TestTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	a, err := Create(path)
	expect.OK(t, err)
	_, err = Create(path)
	expect.Error(t, err, "another run is at work", path, ": wait for it")
	if _, err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	b, err := Create(path)
	expect.OK(t, err)
	// Another process is writing only the certificates: nothing may be left over.
	other, err := createPending(dataset.CertificatePath(filepath.Join(filepath.Dir(path), "x.json")))
	expect.OK(t, err)
	_, err = Create(filepath.Join(filepath.Dir(path), "x.json"))
	expect.Error(t, err, "x.certificates.jsonl")
	expect.OK(t, errors.Join(other.discard(), b.Discard(), b.Discard()))
	if names := folder(t, filepath.Dir(path)); !slices.Equal(names, []string{"out.certificates.jsonl", "out.json"}) {
		t.Errorf("left behind: %q", names)
	}
}

func TestPlacesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	expect.OK(t, errors.Join(os.WriteFile(file, nil, 0o666), os.Mkdir(filepath.Join(dir, "d.json"), 0o777)))
	for _, c := range []struct{ path, words string }{
		{filepath.Join(dir, "out.csv"), `unknown extension ".csv"`},
		{filepath.Join(dir, "out"), `unknown extension ""`},
		{filepath.Join(file, "out.json"), "not a directory"},
		{filepath.Join(dir, "d.json"), "not a regular file"},
	} {
		_, err := Create(c.path)
		expect.Error(t, err, c.words)
	}
	if os.Getuid() == 0 {
		return // root can write to read-only files
	}
	expect.OK(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { os.Chmod(dir, 0o777) }) // so that it can be removed
	_, err := Create(filepath.Join(dir, "out.json"))
	if !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full to imitate a full disk with")
	}
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		path := filepath.Join(t.TempDir(), "out"+ext)
		save(t, path, someRows(2))
		was := expect.Read(t, path)
		o, err := Create(path)
		expect.OK(t, err)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		expect.OK(t, err)
		o.rows = rowWriters[ext](full)
		for i, r := range someRows(3000) {
			if err = o.Write(r, certificateFor(i)); err != nil {
				break
			}
		}
		_, err = o.Commit()
		expect.Error(t, err, "no space left")
		if expect.Read(t, path) != was || len(folder(t, filepath.Dir(path))) != 2 {
			t.Errorf("%s: the old file is not as it was, or something is left behind: %q", ext, folder(t, filepath.Dir(path)))
		}
	}
}

func TestLinksStay(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.Mkdir(filepath.Join(dir, "real"), 0o777))
	link, target := filepath.Join(dir, "out.json"), filepath.Join(dir, "real", "x.json")
	expect.OK(t, errors.Join(os.WriteFile(target, []byte("[]\n"), 0o666), os.Symlink(target, link)))
	if o, err := WriteFile(link, []byte("new")); err != nil || o.State != disk.Replaced {
		t.Fatal(o, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 || expect.Read(t, target) != "new" {
		t.Errorf("the link is gone: %v, %v", info.Mode(), err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "README.md")
	old := ""
	for _, c := range []struct {
		data string
		want disk.State
		kept []string // path.bak, path.bak.2
	}{{"one", disk.Written, nil}, {"one", disk.Unchanged, nil}, {"two", disk.Replaced, []string{"one"}},
		{"", disk.Replaced, []string{"one", "two"}},
		{"", disk.Unchanged, []string{"one", "two"}}, {"two", disk.Replaced, []string{"one", "two", ""}},
		{"", disk.Replaced, []string{"one", "two", ""}}} {
		got, err := WriteFile(path, []byte(c.data))
		if err != nil || got.State != c.want || (got.Kept != "") != (c.want == disk.Replaced) ||
			expect.Read(t, path) != c.data {
			t.Errorf("%q: %v, %v", c.data, got, err)
		}
		if c.want == disk.Replaced && (expect.Read(t, got.Kept) != old ||
			got.String() != "replaced, the old file is kept as "+got.Kept) {
			t.Errorf("%q: %v, and the old file had %q", c.data, got, old)
		}
		old = c.data
		if names := folder(t, filepath.Dir(path)); len(names) != 1+len(c.kept) {
			t.Errorf("%q: there is %q", c.data, names)
		}
		for i, want := range c.kept {
			bak := path + []string{".bak", ".bak.2", ".bak.3"}[i]
			if expect.Read(t, bak) != want {
				t.Errorf("%q: %s has %q, want %q", c.data, bak, expect.Read(t, bak), want)
			}
		}
	}
	// A kill after the second name is made and before the rename leaves a .bak that is the same file.
	expect.OK(t, os.Link(path, path+".bak.4"))
	if o, err := WriteFile(path, []byte("three")); err != nil || o.State != disk.Replaced ||
		len(folder(t, filepath.Dir(path))) != 5 {
		t.Error(o, err, folder(t, filepath.Dir(path)))
	}
}
