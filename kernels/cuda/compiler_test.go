package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/kernels/cuda/cudatest"
)

// openStandInCompiler opens the stand-in for NVRTC, of version 12.3.
func openStandInCompiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := openCompiler([]string{cudatest.Library(t, "libnvrtc")}, Properties{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestArch(t *testing.T) {
	c := &Compiler{Major: 12, Archs: []int{75, 80, 86, 90, 100}}
	for _, test := range []struct {
		major, minor int
		want         string
	}{
		{8, 0, "sm_80"}, {8, 6, "sm_86"}, {8, 9, "sm_86"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {10, 3, "sm_100"},
		{12, 0, "compute_100"}, {7, 5, "sm_75"},
	} {
		if got, err := c.Arch(test.major, test.minor); err != nil || got != test.want {
			t.Errorf("%d.%d: %s, %v, not %s", test.major, test.minor, got, err, test.want)
		}
	}
	if _, err := c.Arch(7, 0); err == nil || !strings.Contains(err.Error(), "capability 7.0") {
		t.Error(err)
	}
}

// TestNewerCompiler checks for the first compiler that supports the GPU, so that installing a newer one helps, or else
// the first.
func TestNewerCompiler(t *testing.T) {
	older := cudatest.Library(t, "libnvrtc")
	newer := filepath.Join(t.TempDir(), "newer.so")
	library, err := os.ReadFile(older)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newer, library, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		paths []string
		major int
		want  string
	}{
		{[]string{older, newer}, 9, older}, {[]string{older, newer}, 10, newer}, {[]string{newer, older}, 9, newer},
		{[]string{older, newer}, 12, older}, {[]string{older}, 10, older}, {[]string{older, newer}, 0, older},
		{[]string{"none", older}, 10, older},
	} {
		gpu := Properties{Name: "GPU", Major: test.major, Driver: 12080}
		c, err := openCompiler(test.paths, gpu)
		if err != nil || c.Path != test.want {
			t.Errorf("%v for %d: %+v, %v", test.paths, test.major, c, err)
		}
	}
	c := openStandInCompiler(t)
	want := "NVRTC 12.3 in " + older + " is older than GPU, of compute capability 12.0: "
	said := c.Older(Properties{Name: "GPU", Major: 12, Driver: 12080})
	if !strings.HasPrefix(said, want) || !strings.HasSuffix(said, "with pip install nvidia-cuda-nvrtc-cu12 --upgrade") {
		t.Errorf("%s\nhas not\n%s", said, want)
	}
	for _, capability := range [][2]int{{8, 0}, {8, 9}, {9, 0}} {
		if said := c.Older(Properties{Major: capability[0], Minor: capability[1]}); said != "" {
			t.Error(capability, said)
		}
	}
}

// TestCompilePasses checks that the compiler gets all of a program, and that its results come back.
func TestCompilePasses(t *testing.T) {
	c := openStandInCompiler(t)
	if c.Major != 12 || c.Minor != 3 || len(c.Archs) != 4 || c.Path != cudatest.Library(t, "libnvrtc") {
		t.Errorf("%+v", c)
	}
	p := Program{Name: "a.cu", Source: "source", Headers: map[string]string{"b.cuh": "text b", "a.cuh": "text a"},
		Options: []string{"-DX=1"}}
	image, log, err := c.Compile(p, "sm_90a")
	_, after, _ := strings.Cut(string(image), "\n")
	if want := "a.cu\nsource\na.cuh: text a\nb.cuh: text " +
		"b\n--std=c++17\n-default-device\n--gpu-architecture=sm_90a\n-DX=1\n"; err != nil || log != "said" || after != want {
		t.Errorf("%q, %q, %v", after, log, err)
	}
	if image, _, err = c.Compile(p, "compute_90"); err != nil || string(image) != "PTX" {
		t.Errorf("%q, %v", image, err)
	}
	p.Source = "#error"
	if _, _, err := c.Compile(p, "sm_90"); err == nil ||
		err.Error() != "compile a.cu for sm_90: NVRTC: NVRTC_ERROR_COMPILATION\nsaid" {
		t.Error(err)
	}
}

// TestCompile uses the installed NVRTC.
func TestCompile(t *testing.T) {
	c, err := OpenCompiler(Properties{})
	if err != nil {
		t.Skip(err)
	}
	p := Program{Name: "scale.cu", Headers: map[string]string{"two.cuh": "constexpr float two() { return 2; }"},
		Source: "#include \"two.cuh\"\nextern \"C\" __global__ void scale(float *x) { x[threadIdx.x] *= two(); }"}
	image, _, err := c.Compile(p, "sm_80")
	if err != nil || !bytes.HasPrefix(image, []byte("\x7fELF")) {
		t.Errorf("%.20q, %v", image, err)
	}
	p.Source += "\nint x = y;"
	if _, _, err := c.Compile(p, "sm_80"); err == nil ||
		!strings.Contains(err.Error(), `scale.cu(3): error: identifier "y" is undefined`) {
		t.Error(err)
	}
}

// number returns how many programs the stand-in had compiled before an image.
func number(image []byte) string { return string(image[:bytes.IndexByte(image, '\n')]) }

func TestCache(t *testing.T) {
	c := openStandInCompiler(t)
	dir := filepath.Join(t.TempDir(), "not", "there")
	p := Program{Name: "a.cu", Source: "source", Headers: map[string]string{"a.cuh": "h"},
		Options: []string{"-DX=1", "-DY=2"}}
	first, err := Cache{dir}.Compile(c, p, "sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	compile := func(change func(p *Program, c *Compiler, arch *string)) []byte {
		t.Helper()
		p, c, arch := p, *c, "sm_90a"
		p.Headers = map[string]string{"a.cuh": "h"}
		change(&p, &c, &arch)
		image, err := Cache{dir}.Compile(&c, p, arch)
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	if again := compile(func(*Program, *Compiler, *string) {}); !bytes.Equal(again, first) {
		t.Error("the same program was compiled twice")
	}
	for name, change := range map[string]func(p *Program, c *Compiler, arch *string){
		"source":   func(p *Program, _ *Compiler, _ *string) { p.Source = "other" },
		"name":     func(p *Program, _ *Compiler, _ *string) { p.Name = "b.cu" },
		"header":   func(p *Program, _ *Compiler, _ *string) { p.Headers["a.cuh"] = "i" },
		"options":  func(p *Program, _ *Compiler, _ *string) { p.Options = []string{"-DX=1 -DY=2"} },
		"arch":     func(_ *Program, _ *Compiler, arch *string) { *arch = "sm_90" },
		"version":  func(_ *Program, c *Compiler, _ *string) { c.Minor = 4 },
		"compiler": func(_ *Program, c *Compiler, _ *string) { c.Path = "testdata/libnvrtc.c" },
	} {
		if number(compile(change)) == number(first) {
			t.Errorf("another %s gave the same image", name)
		}
	}

	files, err := filepath.Glob(filepath.Join(dir, "a-sm_90a-*.cubin"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return disk.IsPending(e.Name()) }) {
		t.Error(left, err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, files[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestCacheLinks puts another user's link or FIFO in the place of a cached image, and checks that it is not run, waited
// for or written to.
func TestCacheLinks(t *testing.T) {
	c := openStandInCompiler(t)
	p := Program{Name: "a.cu", Source: "source"}
	cache := Cache{cudatest.Cache(t)}
	first, err := cache.Compile(c, p, "sm_90")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(cache.Dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	planted := filepath.Join(t.TempDir(), "planted")
	for name, trap := range map[string]func() error{
		"link": func() error { return errors.Join(os.Rename(files[0], planted), os.Symlink(planted, files[0])) },
		"fifo": func() error { return errors.Join(os.Remove(files[0]), syscall.Mkfifo(files[0], 0o666)) },
	} {
		if err := trap(); err != nil {
			t.Fatal(err)
		}
		was, _ := os.ReadFile(planted)
		second, err := cache.Compile(c, p, "sm_90")
		if err != nil || number(second) == number(first) {
			t.Errorf("%s: %q, %v", name, second, err)
		}
		if now, _ := os.ReadFile(planted); !bytes.Equal(was, now) {
			t.Errorf("%s: it was written to", name)
		}
		if info, err := os.Lstat(files[0]); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: it still stands there", name)
		}
	}
}

// TestCacheDamage truncates, changes or empties files, or puts a directory in their place, and checks that each is
// written again.
func TestCacheDamage(t *testing.T) {
	c := openStandInCompiler(t)
	p := Program{Name: "a.cu", Source: "source"}
	for name, damage := range map[string]func(path string, file []byte) error{
		"cut":     func(path string, file []byte) error { return os.WriteFile(path, file[:len(file)-1], 0o644) },
		"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o644) },
		"changed": func(path string, file []byte) error { file[3] ^= 1; return os.WriteFile(path, file, 0o644) },
		"sum":     func(path string, file []byte) error { return os.WriteFile(path, file[len(file)-32:], 0o644) },
		"folder": func(path string, _ []byte) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o755)
		},
	} {
		cache := Cache{cudatest.Cache(t)}
		first, err := cache.Compile(c, p, "sm_90")
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(cache.Dir, "*"))
		if len(files) != 1 {
			t.Fatal(files)
		}
		file, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(files[0], file); err != nil {
			t.Fatal(err)
		}
		second, err := cache.Compile(c, p, "sm_90")
		if err != nil || number(second) == number(first) {
			t.Errorf("%s: %q, %v", name, second, err)
		}
		third, err := cache.Compile(c, p, "sm_90")
		if err != nil || (name != "folder" && !bytes.Equal(second, third)) {
			t.Errorf("%s: the new file was not kept: %q, %v", name, third, err)
		}
	}
}

// TestCacheReadOnly uses a directory that cannot be created, and no directory.
func TestCacheReadOnly(t *testing.T) {
	c := openStandInCompiler(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(file, "folder"), ""} {
		if image, err := (Cache{dir}).Compile(c, Program{Name: "a.cu"}, "sm_90"); err != nil || len(image) == 0 {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// TestCacheShared compiles the same program many times at once, and checks that every caller gets an intact image.
func TestCacheShared(t *testing.T) {
	c := openStandInCompiler(t)
	cache := Cache{cudatest.Cache(t)}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for _, source := range []string{"one", "two", "three"} {
				image, err := cache.Compile(c, Program{Name: "a.cu", Source: source}, "sm_90")
				if err != nil || !bytes.Contains(image, []byte("a.cu\n"+source+"\n")) {
					t.Errorf("%q, %v", image, err)
				}
			}
		})
	}
	wg.Wait()
	if files, err := os.ReadDir(cache.Dir); err != nil || len(files) != 3 {
		t.Error(files, err)
	}
}

func TestDefaultCache(t *testing.T) {
	t.Setenv("RESTYLE_CACHE", "/a/folder")
	if c := DefaultCache(); c.Dir != "/a/folder" {
		t.Error(c)
	}
	t.Setenv("RESTYLE_CACHE", "")
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_CACHE_HOME", "")
	if c := DefaultCache(); filepath.Base(c.Dir) != "restyle" {
		t.Error(c)
	}
}

// TestCacheFileDamaged replaces a file that Compile wrote with files that it did not write.
func TestCacheFileDamaged(t *testing.T) {
	c := openStandInCompiler(t)
	p := Program{Name: "a.cu", Source: "source"}
	for _, file := range [][]byte{nil, make([]byte, 32), make([]byte, 33), []byte("PTX")} {
		cache := Cache{cudatest.Cache(t)}
		if _, err := cache.Compile(c, p, "sm_90"); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(cache.Dir, "*"))
		if err := os.WriteFile(files[0], file, 0o600); err != nil {
			t.Fatal(err)
		}
		image, err := cache.Compile(c, p, "sm_90")
		if err != nil || !bytes.Contains(image, []byte("a.cu\nsource\n")) {
			t.Errorf("%q, %v", image, err)
		}
	}
}

// FuzzCacheFile uses any bytes as a cached file, and flips a bit of a valid one.
func FuzzCacheFile(f *testing.F) {
	f.Add([]byte(nil), uint(0))
	f.Add(make([]byte, 33), uint(1))
	f.Add(sealed([]byte("PTX")), uint(7))
	f.Fuzz(func(t *testing.T, file []byte, at uint) {
		if image, ok := unsealed(file); ok && !bytes.Equal(sealed(image), file) {
			t.Fatalf("%x was taken for %x", file, image)
		}
		whole := sealed(file)
		if image, ok := unsealed(whole); ok != (len(file) > 0) || ok && !bytes.Equal(image, file) {
			t.Fatalf("%x is read back as %x, %v", file, image, ok)
		}
		whole[at%uint(len(whole))] ^= 1 << (at % 8)
		if _, ok := unsealed(whole); ok {
			t.Fatalf("%x was taken, with a bit changed", whole)
		}
	})
}

// TestCacheIsOwn checks that no code is taken from a directory or a file that another user can have written. A plain
// user tries only the modes.
func TestCacheIsOwn(t *testing.T) {
	c := openStandInCompiler(t)
	p := Program{Name: "a.cu", Source: "source"}
	chmod := func(mode os.FileMode) func(*testing.T, string) error {
		return func(_ *testing.T, path string) error { return os.Chmod(path, mode) }
	}
	chown := func(t *testing.T, path string) error {
		if os.Geteuid() != 0 {
			t.Skip("only root can play another user")
		}
		if err := os.Lchown(path, 65534, -1); err != nil {
			t.Skip("this root can play nobody: ", err)
		}
		return nil
	}
	link := func(_ *testing.T, path string) error { return os.Link(path, path+".2") }
	for name, change := range map[string]struct {
		of     string // the file, the directory, or the one above
		change func(t *testing.T, path string) error
		fails  bool // otherwise the program is compiled again
	}{
		"own":                       {"dir", chmod(0o755), false},
		"everybody's directory":     {"dir", chmod(0o777), true},
		"sticky directory":          {"dir", chmod(0o777 | os.ModeSticky), true},
		"a group's directory":       {"dir", chmod(0o775), true},
		"another user's directory":  {"dir", chown, true},
		"everybody's parent":        {"above", chmod(0o777), true},
		"sticky parent":             {"above", chmod(0o777 | os.ModeSticky), false},
		"everybody's file":          {"file", chmod(0o666), false},
		"a group's file":            {"file", chmod(0o660), false},
		"another user's file":       {"file", chown, false},
		"a file with a second name": {"file", link, false},
	} {
		t.Run(name, func(t *testing.T) {
			above := cudatest.Cache(t)
			cache := Cache{filepath.Join(above, "compiled")}
			first, err := cache.Compile(c, p, "sm_90")
			if err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(cache.Dir, "*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			of := map[string]string{"file": files[0], "dir": cache.Dir, "above": above}[change.of]
			if err := change.change(t, of); err != nil {
				t.Fatal(err)
			}
			second, err := cache.Compile(c, p, "sm_90")
			if (err != nil) != change.fails {
				t.Fatal(err)
			}
			if err != nil {
				for _, part := range []string{"RESTYLE_CACHE", "chmod go-w", above} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not name %s", err, part)
					}
				}
				_, err = emulator(cache)
				if err == nil || !errors.Is(err, errors.ErrUnsupported) && !strings.Contains(err.Error(), above) {
					t.Errorf("the emulated GPU: %v", err)
				}
				return
			}
			written := change.of == "file" && name != "a file with a second name"
			if (number(second) == number(first)) == written {
				t.Errorf("%q, then %q", first, second)
			}
		})
	}
}
