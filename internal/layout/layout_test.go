// Package layout has only tests, of the module's layout, such as the direction of imports.
package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// layers are the packages, with the commands first. A package may import packages of later lines, but none of its own
// line. A directory also represents its subdirectories that have no line of their own.
var layers = [][]string{
	{"cmd/bench", "cmd/chat", "cmd/export", "cmd/gen", "cmd/serve", "cmd/train", "internal/makedata"},
	{"parity", "quality"},
	{"trainer", "teacher", "serve"},
	{"internal/models"},
	{"infer", "dataset/training", "dataset/output", "teacher/openai"},
	{"dataset", "tokenizer", "hf", "voice"},
	{"chat"},
	{"optim"},
	{"model", "opcheck"},
	{"kernels"},
	{"quant", "gguf/vocab"},
	{"kernels/cuda", "kernels/cpu", "ranks"},
	{"tensor", "hf/hub", "lora", "gguf"},
	{"grade"},
	{"data", "internal"},
	{"internal/sandbox"},
}

// alone lists the packages that import no other package of the module, except internal/disk to open files.
var alone = []string{"voice", "data", "internal/measure", "internal/many", "tensor", "lora", "tokenizer", "chat/jinja",
	"internal/python",
	"internal/cli",
	"internal/disk",
	"internal/sandbox", "internal/secret"}

func layer(t *testing.T, path string) (int, string) {
	for p := path; p != "."; p = filepath.Dir(p) {
		for i, names := range layers {
			for _, name := range names {
				if name == p {
					return i, name
				}
			}
		}
	}
	t.Fatalf("%s is in no layer: give it one", path)
	return 0, ""
}

func TestImportsGoOneWay(t *testing.T) {
	const root = "../.."
	files := 0
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
		files++
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		from, name := layer(t, filepath.ToSlash(rel))
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imported, ours := strings.CutPrefix(imported, "restyle/")
			if !ours {
				continue
			}
			to, other := layer(t, imported)
			for _, a := range alone {
				if rel == a && imported != "internal/disk" {
					t.Errorf("%s imports %s: %s stands alone", path, imported, a)
				}
			}
			if to <= from && other != name {
				t.Errorf("%s imports %s, which is not below it", path, imported)
			}
		}
		return nil
	})
	expect.OK(t, err)
	if files < 30 {
		t.Errorf("only %d files were seen", files)
	}
}

// TestImports_NeedlessAreAbsent checks what packages get along without, whatever they import: gen neither trains nor
// runs a model, so it needs no kernels, which are C, and the libraries need no embedded model and no sandbox.
func TestImports_NeedlessAreAbsent(t *testing.T) {
	for _, c := range []struct{ pkg, has, needless string }{
		{"cmd/gen", "hf/hub", "kernels tokenizer"},
		{"hf", "kernels", "data internal/sandbox"},
		{"infer", "hf", "data internal/sandbox"},
		{"trainer", "hf", "data internal/sandbox"},
		{"dataset/training", "dataset", "data internal/sandbox"},
	} {
		out, err := exec.Command("go", "list", "-deps", "restyle/"+c.pkg).Output()
		expect.OK(t, err)
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, "restyle/"+c.has) {
			t.Fatalf("what %s imports is not known: %v", c.pkg, deps)
		}
		for _, needless := range strings.Fields(c.needless) {
			if slices.Contains(deps, "restyle/"+needless) {
				t.Errorf("%s imports %s", c.pkg, needless)
			}
		}
	}
}

// TestBuild_WithoutCompilerSaysSo checks that a build without a C compiler, for which Go turns cgo off, says in one
// line what is missing.
func TestBuild_WithoutCompilerSaysSo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the sources for Linux say so") // the rest is checked for other systems without a C compiler
	}
	build := exec.Command("go", "build", "-o", os.DevNull, "restyle/cmd/train")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n") // the first names the package
	if err == nil || len(lines) != 2 || !strings.Contains(lines[1], "needs_a_C_compiler") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestRepository_HasNoBuilds checks that no compiler output is committed.
func TestRepository_HasNoBuilds(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("this is no checkout of git's:", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Errorf("only %d files were seen", len(files))
	}
	for _, name := range files {
		f, err := os.Open(filepath.Join("../..", name))
		if err != nil {
			continue // deleted, but the deletion is not committed yet
		}
		magic := make([]byte, 4)
		_, err = io.ReadFull(f, magic)
		f.Close()
		if err == nil && string(magic) == "\x7fELF" {
			t.Errorf("%s is a program or a library", name)
		}
	}
}

// withoutCount are the fuzz targets that do not count what they allocate, and why.
var withoutCount = map[string]string{
	"chat/jinja FuzzTemplate":     "the interpreter counts what a template holds",
	"chat FuzzProgram":            "it compares programs with templates of the package's own",
	"chat FuzzRender":             "it renders templates of the package's own",
	"parity FuzzFigures":          "it runs models",
	"parity FuzzOptimMetadata":    "it runs optimizers",
	"dataset FuzzQuestion":        "it joins two texts",
	"dataset/training FuzzEncode": "it encodes with a real template",
	"dataset/training FuzzTurns":  "it encodes with a real template",
	"gguf FuzzDequantize":         "it fills slices of its own",
	"hf FuzzQuantized":            "it writes a model around one tensor",
	"hf FuzzBitsAndBytes":         "it writes and loads a model",
	"infer FuzzStops":             "it compares every part of a text",
	"internal/plot FuzzChart":     "it draws two points",
	"internal/python FuzzEqual":   "FuzzTokenize counts",
	"kernels/cuda FuzzCacheFile":  "it seals what it reads",
	"model FuzzValidate":          "it reads numbers",
	"quant FuzzCheck":             "it quantizes 300 weights",
	"teacher/openai FuzzLimit":    "it counts requests",
	"trainer/report FuzzLossSVG":  "it draws points",
}

// TestFuzzTargetsCount checks that every fuzz target of a parser counts what it allocates.
func TestFuzzTargetsCount(t *testing.T) {
	const root = "../.."
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, decl := range file.Decls {
			f, is := decl.(*ast.FuncDecl)
			if !is || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			name := filepath.ToSlash(dir) + " " + f.Name.Name
			counts := false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				s, is := n.(*ast.SelectorExpr)
				if is && (s.Sel.Name == "Within" || s.Sel.Name == "Parse") {
					x, is := s.X.(*ast.Ident)
					counts = counts || is && x.Name == "hostile"
				}
				return true
			})
			if found[name] = true; counts == (withoutCount[name] != "") {
				t.Errorf("%s: counts what it allocates: %v: call hostile.Parse or hostile.Within, or give a reason", name, counts)
			}
		}
		return err
	})
	expect.OK(t, err)
	for name := range withoutCount {
		if !found[name] {
			t.Errorf("there is no %s", name)
		}
	}
	if len(found) < 60 {
		t.Errorf("only %d fuzz targets were found", len(found))
	}
}

// TestCommands_CheckLimitsFirst checks that every command looks at the limits of its process before Go's runtime
// starts.
func TestCommands_CheckLimitsFirst(t *testing.T) {
	commands, err := filepath.Glob("../../cmd/*/main.go")
	if err != nil || len(commands) < 5 {
		t.Fatalf("commands: %q, %v", commands, err)
	}
	for _, path := range commands {
		if file, err := os.ReadFile(path); err != nil || !strings.Contains(string(file), "_ \"restyle/internal/limits\"") {
			t.Errorf("%s does not import restyle/internal/limits: %v", path, err)
		}
	}
}

// TestCompose_HasEveryCommand checks that compose.yaml has a service for every command.
func TestCompose_HasEveryCommand(t *testing.T) {
	services, err := os.ReadFile("../../compose.yaml")
	expect.OK(t, err)
	commands, err := filepath.Glob("../../cmd/*/main.go")
	if err != nil || len(commands) < 5 {
		t.Fatalf("commands: %q, %v", commands, err)
	}
	for _, path := range commands {
		name := filepath.Base(filepath.Dir(path))
		if !strings.Contains(string(services), "  "+name+":\n    <<: *restyle\n    entrypoint: ["+name+"]\n") {
			t.Errorf("compose.yaml has no service %s", name)
		}
	}
}
