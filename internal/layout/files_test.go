package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// unguarded are the functions that open, list, make or remove files without the guards of internal/disk: a regular
// file, a limit, a directory that no other user has planted. The functions on a line are called on any of the packages
// before the colon; * is any value, as in root.ReadFile.
var unguarded = []string{
	"os fs filepath unix syscall ioutil: ReadFile Open OpenFile ReadDir OpenRoot OpenInRoot DirFS CopyFS Glob Walk",
	"fs filepath: WalkDir",
	"os unix syscall: Create CreateTemp WriteFile Mkdir MkdirAll MkdirTemp Symlink Link Rename RemoveAll Truncate Mkfifo",
	"unix syscall: Openat Openat2 Mmap Creat Mkdirat Renameat Renameat2 Linkat Symlinkat",
	"*: ReadFile ReadDir Readdir Readdirnames OpenFile MkdirAll Symlink",
}

// allowed are the calls that need no guard, by file or directory, each with the reason.
var allowed = []struct{ path, calls, why string }{
	{"internal/disk/", "*", "the guards"},
	{"internal/sandbox/", "*", "in its own mounts, before what it runs"},
	{"internal/bindings/", "*", "files of the repository, for its developers"},
	{"internal/expect/", "*", "for tests"},
	{"internal/hostile/", "*", "for tests"},
	{"internal/mutants/", "*", "files of the repository, for its developers"},
	{"kernels/cuda/cudatest/", "*", "for tests"},
	{"internal/makedata/", "*", "files of the repository, for its developers"},
	{"", "disk.ReadDir", "the guards"},
	{"", "sources.ReadFile emulatedSources.ReadFile templateFiles.ReadFile builtin.ReadFile", "embedded in the program"},
	{"", "back.ReadFile c.ReadFile from.ReadFile t.base.ReadFile", "of hf.Checkpoint, which has read them with a limit"},
	{"cmd/bench/configs.go", "fs.ReadFile", "the embedded model"},
	{"cmd/bench/pages.go", "os.ReadFile", "/proc/cpuinfo"},
	{"cmd/bench/train.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"cmd/bench/peer.go", "os.CopyFS os.WriteFile", "in the directory of train.go"},
	{"cmd/gen/home.go", "os.MkdirTemp", "a new directory with a random name"},
	{"cmd/gen/home.go", "filepath.Glob", "directories whose owner is checked"},
	{"cmd/gen/look.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"cmd/train/base.go", "fs.ReadFile", "of hf.DirFS, whose ReadFile has a limit"},
	{"cmd/train/defaults.go", "fs.ReadFile", "of hf.DirFS, whose ReadFile has a limit"},
	{"cmd/train/selfcheck.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"grade/pair.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"dataset/parquet", "parquet.OpenFile", "of a reader"},
	{"hf/hub/cache.go", "root.Symlink", "in a directory that disk.MakeDirIn has passed"},
	{"hf/template.go", "fs.Glob", "of hf.DirFS, whose ReadDir has a limit"},
	{"hf/weights.go", "fs.ReadDir", "of hf.DirFS, whose ReadDir has a limit"},
	{"internal/llamacpp/", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"internal/memory/", "fs.ReadFile os.DirFS", "/proc and /sys"},
	{"kernels/arena.go", "unix.Mmap", "memory without a file"},
	{"kernels/cuda/compiler.go", "filepath.Glob", "next to a library that is run anyway"},
	{"kernels/cuda/libraries.go", "filepath.Glob", "directories of the system, whose libraries are run anyway"},
	{"kernels/cuda/emulated.go", "fs.Glob fs.WalkDir", "embedded in the program"},
	{"kernels/cuda/emulated.go", "os.CopyFS os.MkdirTemp os.RemoveAll os.WriteFile", "a new directory with a random name"},
	{"kernels/cuda/messages.go", "fs.ReadFile os.DirFS", "/proc"},
	{"kernels/energy.go", "filepath.Glob os.ReadFile", "/sys"},
	{"kernels/launch.go", "fs.Glob", "embedded in the program"},
	{"parity/gguf.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"parity/gguf_files.go", "os.WriteFile", "in a new directory"},
	{"parity/lora.go", "os.MkdirTemp os.RemoveAll", "a new directory with a random name"},
	{"ranks/place.go", "os.ReadFile", "/sys"},
	{"ranks/start_linux.go", "os.ReadFile", "/proc"},
	{"trainer/checkpoint/replace.go", "os.Mkdir", "in a directory that disk.MakeDir has passed"},
	{"trainer/state.go", "os.WriteFile", "in a directory that checkpoint.Write has just made"},
	{"voice/style.go", "fs.Glob", "embedded in the program"},
}

// isUnguarded reports whether a call, such as os.Open, is one of unguarded.
func isUnguarded(call string) bool {
	of, name := call[:strings.LastIndexByte(call, '.')], call[strings.LastIndexByte(call, '.')+1:]
	return slices.ContainsFunc(unguarded, func(line string) bool {
		packages, names, _ := strings.Cut(line, ": ")
		return slices.Contains(strings.Fields(names), name) &&
			(packages == "*" || slices.Contains(strings.Fields(packages), of))
	})
}

// text returns an expression such as j.base, or "?" for a longer one.
func text(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return text(x.X) + "." + x.Sel.Name
	}
	return "?"
}

// TestFilesGoThroughDisk checks that libraries and commands open, list and make files with the functions of
// internal/disk, and that each exception is needed.
func TestFilesGoThroughDisk(t *testing.T) {
	const root = "../.."
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && isUnguarded(text(x)) {
				if why := allowance(rel, text(x)); why == "" {
					t.Errorf("%s: %s has no limit, waits for pipes, or trusts directories: use internal/disk", rel, text(x))
				} else {
					used[why] = true
				}
			}
			return true
		})
		return nil
	})
	expect.OK(t, err)
	for _, a := range allowed {
		for call := range strings.FieldsSeq(a.calls) {
			if !used[a.path+" "+call] {
				t.Errorf("%s: %s is allowed, but does not occur", a.path, call)
			}
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d kinds of calls were seen: %v", len(used), slices.Sorted(maps.Keys(used)))
	}
}

// allowance returns which exception allows a call in a file, or "".
func allowance(path, call string) string {
	for _, a := range allowed {
		for one := range strings.FieldsSeq(a.calls) {
			if strings.HasPrefix(path, a.path) && (one == "*" || one == call) {
				return a.path + " " + one
			}
		}
	}
	return ""
}

// TestFilesGoThroughDisk_SeesCalls checks that the test above sees calls.
func TestFilesGoThroughDisk_SeesCalls(t *testing.T) {
	for call, want := range map[string]bool{"os.ReadFile": true, "os.Open": true, "root.ReadFile": true,
		"h.root.OpenFile": true, "os.MkdirAll": true, "os.Stat": false, "hf.Open": false, "?.ReadDir": true} {
		if isUnguarded(call) != want {
			t.Errorf("%s: %v", call, !want)
		}
	}
	if allowance("cmd/chat/models.go", "os.ReadFile") != "" {
		t.Error("os.ReadFile is allowed anywhere")
	}
}
