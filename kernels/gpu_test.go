package kernels

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/kernels/cuda"
	"restyle/tensor"
)

var (
	kernelText  = regexp.MustCompile(`extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)`)
	commentText = regexp.MustCompile(`//[^\n]*`)
)

// signature is what the parameters of a kernel are made by.
func signature(parameters string) (kinds []string, err error) {
	for p := range strings.SplitSeq(parameters, ",") {
		switch words := strings.Fields(p); {
		case strings.Contains(p, "*"):
			kinds = append(kinds, "address")
		case len(words) == 2 && (words[0] == "int" || words[0] == "float"):
			kinds = append(kinds, words[0])
		default:
			return nil, fmt.Errorf("parameter %q is no pointer, int or float", strings.TrimSpace(p))
		}
	}
	return kinds, nil
}

// TestLaunches compares the arguments of every launch with the parameters of the kernel, in number and kind: nobody else
// does, neither the compilers nor CUDA. And it wants every kernel to be launched.
func TestLaunches(t *testing.T) {
	declared := map[string][]string{} // by "rmsnorm.cu rmsnorm"
	for _, f := range sourceFiles(t) {
		text, err := sources.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source := commentText.ReplaceAllString(string(text), "")
		found := kernelText.FindAllStringSubmatch(source, -1)
		if len(found) != strings.Count(source, "__global__") {
			t.Errorf("%s: a kernel is not declared as this test reads them", f)
		}
		for _, k := range found {
			if declared[f+" "+k[1]], err = signature(k[2]); err != nil {
				t.Errorf("%s: %s: %v", f, k[1], err)
			}
		}
	}

	made := map[string]string{"addr": "address", "uint64": "address", "i32": "int", "flag": "int", "f32": "float"}
	launched := map[string]bool{}
	goFiles, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range goFiles {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "launch" {
				return true
			}
			at := set.Position(call.Pos())
			k, ok := call.Args[0].(*ast.CompositeLit)
			if !ok || len(k.Elts) < 2 {
				t.Errorf("%v: the kernel is not written as kernel{…}", at)
				return true
			}
			id := literal(k.Elts[0]) + " " + literal(k.Elts[1])
			want, ok := declared[id]
			if !ok {
				t.Errorf("%v: no kernel %q", at, id)
				return true
			}
			launched[id] = true
			var got []string
			for _, arg := range call.Args[4:] {
				kind := "?"
				if c, ok := arg.(*ast.CallExpr); ok {
					if f, ok := c.Fun.(*ast.Ident); ok {
						kind = made[f.Name]
					}
				}
				got = append(got, kind)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v: %s takes %v, not %v", at, id, want, got)
			}
			return true
		})
	}
	for id := range declared {
		if !launched[id] {
			t.Errorf("%s is never launched", id)
		}
	}
}

// literal is the value of a string in the source, "" if it is none.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// TestCompile compiles every source for every generation of GPU. A kernel that does not keep its row in registers would be
// right but slow: at the length that most models have, none may spill more than what a compiler's moods make of a few.
func TestCompile(t *testing.T) {
	c, err := cuda.OpenCompiler(0)
	if err != nil {
		t.Skip(err)
	}
	t.Logf("NVRTC %d.%d in %s", c.Major, c.Minor, c.Path)
	compile := func(b build, arch string) (log string) {
		p, err := b.program()
		if err != nil {
			t.Fatal(err)
		}
		p.Options = append(p.Options, "--ptxas-options=-v")
		if _, log, err = c.Compile(p, arch); err != nil {
			t.Error(err)
		}
		if strings.Contains(log, "warning") {
			t.Errorf("%v for %s:\n%s", b, arch, log)
		}
		return log
	}
	spill := regexp.MustCompile(`(\d+) bytes spill stores`)
	for _, source := range sourceFiles(t) {
		// More threads than most launches have, so with fewer registers each.
		b := build{source, tensor.BF16, 2048, 512}
		for _, arch := range []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"} {
			log := compile(b, arch)
			for _, m := range spill.FindAllStringSubmatch(log, -1) {
				if n, err := strconv.Atoi(m[1]); err != nil || n > 32 {
					t.Errorf("%v for %s spills:\n%s", b, arch, log)
				}
			}
		}
		b.t = tensor.F32
		compile(b, "sm_80")
		b.t, b.dim = tensor.BF16, 63 // no 16 bytes are whole elements of one row
		compile(b, "sm_80")
	}
}

// sourceFiles lists the CUDA sources.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(sources, "*.cu")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// TestFunctions has a kernel be found once, and again for more shared memory than it may have, but never for less, which
// would take memory away from it.
func TestFunctions(t *testing.T) {
	var asked []string
	fs := functions{}
	get := func(l launched, shared int) *cuda.Function {
		t.Helper()
		f, err := fs.get(l, shared, func(l launched, shared int) (*cuda.Function, error) {
			asked = append(asked, fmt.Sprintln(l.name, l.t, l.dim, l.block, "with", shared))
			if shared > 200 {
				return nil, errors.New("too much")
			}
			return new(cuda.Function), nil
		})
		if (err != nil) != (shared > 200) || (f == nil) != (shared > 200) {
			t.Errorf("%v, %d bytes: %v, %v", l, shared, f, err)
		}
		return f
	}
	a := launched{kernel{"k.cu", "k", tensor.F32, 64}, 256}
	first := get(a, 0)
	if get(a, 0) != first {
		t.Error("the same kernel is another")
	}
	get(a, 100)
	get(a, 50)
	get(a, 100)
	get(a, 101)
	get(a, 201) // an error is not kept
	get(a, 101)
	for _, other := range []launched{
		{kernel{"k.cu", "l", tensor.F32, 64}, 256}, {kernel{"k.cu", "k", tensor.BF16, 64}, 256},
		{kernel{"k.cu", "k", tensor.F32, 65}, 256}, {kernel{"k.cu", "k", tensor.F32, 64}, 128},
	} {
		get(other, 0)
	}
	want := []string{
		"k F32 64 256 with 0\n", "k F32 64 256 with 100\n", "k F32 64 256 with 101\n", "k F32 64 256 with 201\n",
		"l F32 64 256 with 0\n", "k BF16 64 256 with 0\n", "k F32 65 256 with 0\n", "k F32 64 128 with 0\n",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

func TestUnknownSource(t *testing.T) {
	if _, err := (build{"none.cu", tensor.F32, 1, 1}).program(); err == nil || !strings.Contains(err.Error(), "none.cu") {
		t.Error(err)
	}
}

// TestArguments wants each argument in the lower bytes of its word, as the driver reads it.
func TestArguments(t *testing.T) {
	for name, test := range map[string][2]uint64{
		"address": {addr(tensor.Tensor{Addr: 1 << 40}), 1 << 40},
		"none":    {addr(tensor.Tensor{}), 0},
		"int":     {i32(-1), 0xFFFF_FFFF},
		"float":   {f32(-2), 0xC000_0000},
		"true":    {flag(true), 1},
		"false":   {flag(false), 0},
	} {
		if test[0] != test[1] {
			t.Errorf("%s: %#x, not %#x", name, test[0], test[1])
		}
	}
	mustPanic(t, "a large int", "launch: 2147483648 does not fit", func() { i32(1 << 31) })
}
