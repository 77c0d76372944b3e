package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// A place is a directory with a directory "public" in it, whose mode and owner a test chooses, and a victim's directory
// next to it.
type place struct{ dir, public, victim string }

func newPlace(t *testing.T) place {
	dir := t.TempDir()
	p := place{dir, filepath.Join(dir, "public"), filepath.Join(dir, "victim")}
	expect.OK(t, errors.Join(os.Mkdir(p.public, 0o777), os.Mkdir(p.victim, 0o755)))
	return p
}

const neighbour = 65534

// writes are all ways in which this package changes a directory.
var writes = map[string]func(dir string) error{
	"make": func(dir string) error { return MakeDir(filepath.Join(dir, "a/b"), 0o777) },
	"create": func(dir string) error {
		p, err := Create(filepath.Join(dir, "x"), 0o666)
		if err == nil {
			err = p.Discard()
		}
		return err
	},
	"write": func(dir string) error { return Write(filepath.Join(dir, "x"), nil, 0o666) },
	"open": func(dir string) error {
		f, err := Open(filepath.Join(dir, "x"), os.O_WRONLY|os.O_CREATE, 0o666)
		if err == nil {
			err = f.Close()
		}
		return err
	},
	"lock": func(dir string) error {
		f, err := Lock(filepath.Join(dir, "x"))
		if err == nil {
			err = f.Remove()
		}
		return err
	},
	"rename": func(dir string) error {
		old := dir + "-old"
		return errors.Join(os.WriteFile(old, nil, 0o666), Rename(old, filepath.Join(dir, "x")))
	},
	"backup":    func(dir string) error { _, err := Backup(filepath.Join(dir, "file")); return err },
	"move":      func(dir string) error { _, err := MoveToBackup(filepath.Join(dir, "file")); return err },
	"removeall": func(dir string) error { return RemoveAll(filepath.Join(dir, "file")) },
	"real":      func(dir string) error { _, err := RealPath(dir); return err },
	"root": func(dir string) error {
		root, err := OpenRoot(dir)
		if err == nil {
			err = root.Close()
		}
		return err
	},
}

// TestTrustDir checks into which directories this package writes: whether a neighbor has made "out" in a public
// directory, as a directory or as a link to the victim's, or whether it is this user's own. Every call that writes is
// tried. As a user who cannot play another, only the user's own are tried.
func TestTrustDir(t *testing.T) {
	for _, c := range []struct {
		name       string
		mode       fs.FileMode // of public
		owner, out int         // of public, and of "out"; 0: this user
		link       bool        // "out" is a link
		refused    bool
	}{
		{"own in sticky", 0o777 | fs.ModeSticky, 0, 0, false, false},
		{"own in 0777", 0o777, 0, 0, false, false},
		{"own link in sticky", 0o777 | fs.ModeSticky, 0, 0, true, false},
		{"directory in sticky", 0o777 | fs.ModeSticky, 0, neighbour, false, true},
		{"directory in 0777", 0o777, 0, neighbour, false, true},
		{"directory in sticky for a group", 0o770 | fs.ModeSticky, 0, neighbour, false, true},
		{"directory in a team's", 0o775, 0, neighbour, false, false},
		{"directory in 0755", 0o755, 0, neighbour, false, false},
		{"link in sticky", 0o777 | fs.ModeSticky, 0, neighbour, true, true},
		{"link in 0777", 0o777, 0, neighbour, true, true},
		{"link in a team's", 0o775, 0, neighbour, true, true},
		{"link in 0755", 0o755, 0, neighbour, true, false},
		{"a third user's in a neighbor's", 0o777, neighbour, 4321, false, true},
		{"own in a neighbor's", 0o777, neighbour, 0, false, false},
		{"own in a neighbor's below sticky", 0o777, neighbour, 0, false, true},
		{"a neighbor's in the neighbor's own", 0o755, neighbour, neighbour, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for what, write := range writes {
				p := newPlace(t)
				out := filepath.Join(p.public, "out")
				err := os.Mkdir(out, 0o777)
				target := out
				if c.link {
					target = p.victim
					err = errors.Join(os.Remove(out), os.Symlink(target, out))
				}
				expect.OK(t, errors.Join(err, os.WriteFile(filepath.Join(target, "file"), []byte("mine"), 0o666)))
				for path, owner := range map[string]int{out: c.out, p.public: c.owner} {
					play(t, path, owner)
				}
				mode := fs.FileMode(0o755)
				if strings.HasSuffix(c.name, "below sticky") {
					mode = 0o777 | fs.ModeSticky
				}
				expect.OK(t, errors.Join(os.Chmod(p.public, c.mode), os.Chmod(p.dir, mode)))
				before := names(t, target)
				if err := write(out); (err != nil) != c.refused {
					t.Errorf("%s: %v", what, err)
				} else if err != nil {
					expect.Error(t, err, p.dir, "user", "others write in")
				}
				if after := names(t, target); c.refused && after != before {
					t.Errorf("%s: there was %s, and is %s", what, before, after)
				}
			}
		})
	}
}

// play gives a file to another user. It skips the test if this process cannot.
func play(t *testing.T, path string, owner int) {
	if owner == 0 {
		return // this user
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user")
	}
	if err := os.Lchown(path, owner, -1); err != nil {
		t.Skip("this root can play nobody: ", err) // for example in a user namespace that has no other user
	}
}

func names(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	expect.OK(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// TestTrustPaths checks that the way to a directory is checked however it is spelled: relative, and through links.
func TestTrustPaths(t *testing.T) {
	p := newPlace(t)
	theirs := filepath.Join(p.public, "theirs")
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Join(theirs, "deep"), 0o777), os.Mkdir(p.public+"/mine", 0o755),
		os.Symlink(theirs, filepath.Join(p.victim, "link")), os.Symlink("../public", filepath.Join(p.victim, "here")),
		os.Symlink("loop", filepath.Join(p.victim, "loop")),
		os.Chmod(p.public, 0o777|fs.ModeSticky)))
	t.Chdir(p.public)
	for path, want := range map[string]string{
		"mine": "", ".": "", "": "", "mine/new/dir": "", "./mine/../mine/": "", "../victim": "", "mine/../../victim/": "",
		p.victim + "/none/../x": "", "../victim/loop": "open ../victim/loop: too many",
	} {
		if err := TrustDir(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
	play(t, theirs, neighbour)
	for _, path := range []string{"theirs", "theirs/", "theirs/deep/er", "mine/../theirs", "../victim/link",
		"../victim/here/theirs",
		"../victim/link/deep/../x", theirs, "theirs/../mine", "../victim/link/../mine"} {
		if err := TrustDir(path); err == nil {
			t.Errorf("%q is trusted", path)
		}
	}
	t.Chdir(theirs)
	if err := TrustDir("mine"); err == nil {
		t.Error("the working directory is trusted")
	}
}

// TestTrustInRoot checks that a directory that a neighbor made inside of an open one is not written in.
func TestTrustInRoot(t *testing.T) {
	p := newPlace(t)
	root, err := OpenRoot(p.public)
	expect.OK(t, err)
	defer root.Close()
	expect.OK(t, errors.Join(root.Mkdir("blobs", 0o777), os.Chmod(p.public, 0o777), WriteIn(root, "blobs/x", nil, 0o666),
		RenameIn(root, "blobs/x", "blobs/y")))
	play(t, filepath.Join(p.public, "blobs"), neighbour)
	for what, err := range map[string]error{"write": WriteIn(root, "blobs/x", nil, 0o666),
		"rename": RenameIn(root, "blobs/y", "blobs/z")} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	// The name of the directory now leads to another one.
	expect.OK(t, errors.Join(os.Rename(p.public, p.public+"-old"), os.Symlink(p.victim, p.public)))
	if err := WriteIn(root, "x", nil, 0o666); err != nil || names(t, p.victim) != "" {
		t.Errorf("%v, the other directory has %s", err, names(t, p.victim))
	}
}
