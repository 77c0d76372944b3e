package kernels

import (
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

	"restyle/internal/expect"
	"restyle/kernels/cuda"
	"restyle/tensor"
)

var (
	kernelText  = regexp.MustCompile(`extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)`)
	commentText = regexp.MustCompile(`//[^\n]*`)
)

// signature returns the kinds of a kernel's parameters: "address", "int" and so on.
func signature(parameters string) (kinds []string, err error) {
	for p := range strings.SplitSeq(parameters, ",") {
		switch words := strings.Fields(p); {
		case strings.Contains(p, "TileMap"):
			kinds = append(kinds, "tiles")
		case strings.Contains(p, "*"):
			kinds = append(kinds, "address")
		case len(words) == 2 && slices.Contains([]string{"int", "float", "double"}, words[0]):
			kinds = append(kinds, words[0])
		case len(words) == 3 && words[0] == "long" && words[1] == "long":
			kinds = append(kinds, "long long")
		default:
			return nil, fmt.Errorf("parameter %q is no pointer, int, long long, float or double", strings.TrimSpace(p))
		}
	}
	return kinds, nil
}

// declarations returns the kernels of all sources, by "op_rmsnorm.cu rmsnorm", with the kinds of their parameters.
func declarations(t *testing.T) map[string][]string {
	t.Helper()
	declared := map[string][]string{}
	for _, f := range sourceFiles(t) {
		text, err := sources.ReadFile(f)
		expect.OK(t, err)
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
	return declared
}

// TestLaunches_FitParameters compares the arguments of every launch with the parameters of the kernel, in number and
// kind, because neither the compilers nor CUDA compare them. It also checks that every kernel is launched.
func TestLaunches_FitParameters(t *testing.T) {
	declared := declarations(t)
	made := map[string]string{
		"addr": "address", "addrOf": "address", "address": "address", "i32": "int", "flag": "int", "i64": "long long",
		"f32": "float", "f64": "double", "tiles": "tiles",
	}
	launched := map[string]bool{}
	goFiles, err := filepath.Glob("*.go")
	expect.OK(t, err)
	set := token.NewFileSet()
	for _, name := range goFiles {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		expect.OK(t, err)
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
			for _, arg := range call.Args[2:] {
				got = append(got, made[maker(arg)])
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

// maker returns the name of the function that makes an argument: addr of addr(x).moves(n).
func maker(arg ast.Expr) string {
	call, ok := arg.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return maker(f.X)
	}
	return ""
}

// literal returns the value of a string literal, or "" if e is none.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return s
	}
	return ""
}

// A launched is a kernel and what it was launched with.
type launched struct {
	kernel
	grid
	words []uint64
}

// launches returns what f launches on a GPU of 132 multiprocessors with these properties. It needs no GPU, because
// nothing runs.
func launches(t testing.TB, p cuda.Properties, o Options, f func(d *Device) error) (all []launched) {
	t.Helper()
	p.SMs, p.L2 = 132, 50<<20
	expect.OK(t, new(Builds).Rehearse(p, o, func(d *Device) error {
		d.gpu.launched = func(k kernel, g grid, words []uint64) { all = append(all, launched{k, g, words}) }
		return f(d)
	}))
	return all
}

// The tests of kernels_test have the lists of operations: Timed runs them at the sizes of models, Checked at odd ones.
// Without bf16 they leave out what has that type.
var Timed, Checked func(t *testing.T, bf16 bool) func(d *Device) error

// sourceFiles lists the CUDA sources.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(sources, "*.cu")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// TestVectors_AreWidest checks for the widest vectors that keep rows aligned, and a thread block for every 256 of them.
func TestVectors_AreWidest(t *testing.T) {
	for _, test := range []struct {
		t               tensor.DType
		rows, dim       int
		width, n, count int
	}{
		{tensor.BF16, 3, 2048, 8, 768, 3}, {tensor.BF16, 3, 2056, 8, 771, 4}, {tensor.BF16, 3, 2052, 4, 1539, 7},
		{tensor.BF16, 2, 66, 2, 66, 1}, {tensor.BF16, 5, 63, 1, 315, 2}, {tensor.BF16, 0, 64, 8, 0, 0},
		{tensor.F32, 1, 1024, 4, 256, 1}, {tensor.F32, 1, 1028, 4, 257, 2}, {tensor.F32, 1, 66, 2, 33, 1},
		{tensor.F32, 1, 1, 1, 1, 1},
	} {
		x := tensor.Matrix{Addr: align, Rows: test.rows, Cols: test.dim, Stride: test.dim, DType: test.t}
		all := define(macro{test.t.String(), 1}, macro{"WIDTH", test.width}, macro{"DIM", test.dim})
		if got := rowsOf(x); got != all {
			t.Errorf("%v: %v, not %v", x, got, all)
		}
		all.first[2] = macro{}
		if got := vectorsOf(x); got != all {
			t.Errorf("%v: %v, not %v", x, got, all)
		}
		if n := vectors(x); n != test.n || each(n) != line(test.count, 256) {
			t.Errorf("%v: %d vectors in %v, not %d in %d blocks", x, n, each(n), test.n, test.count)
		}
	}
}

// TestOnePerVector checks that operations with a thread per vector launch one for each vector of the result.
func TestOnePerVector(t *testing.T) {
	const rows, dim = 130, 264
	all := launches(t, cuda.Properties{Major: 8}, Options{Fused: All()}, func(d *Device) error {
		a, err := d.NewArena("test", 1<<20)
		if err != nil {
			return err
		}
		x, pair := a.New("x", tensor.BF16, rows, dim), a.New("pair", tensor.BF16, rows, 2*dim)
		d.Add(x, x, x)
		d.Mul(x, x, x)
		d.GELU(x, x, false)
		d.GELUBackward(x, x, x, false)
		d.SwiGLU(x, pair)
		d.SwiGLUBackward(pair, x, pair)
		return a.Close()
	})
	if len(all) != 6 {
		t.Errorf("%d launches", len(all))
	}
	for _, l := range all {
		if l.grid != line(17, 256) { // there are 130 · 33 vectors
			t.Errorf("%v", l)
		}
	}
}

// TestMacros checks that the compiler's options have the given macros and BLOCK_DIM, however many they are, and that
// macros are the same if their options are.
func TestMacros(t *testing.T) {
	m, same := define(macro{"F32", 1}), define(macro{"F32", 1})
	want := []string{"-DBLOCK_DIM=256", "-DF32=1"}
	for i := range 2 * len(m.first) {
		p, err := build{"op_add.cu", m, 256}.program()
		if err != nil || !slices.Equal(p.Options, want) || m != same || m == m.with("MORE", i) {
			t.Fatalf("%v, %v, not %v", p.Options, err, want)
		}
		m, same = m.with("MORE", i), same.with("MORE", i)
		want = append(want, fmt.Sprintf("-DMORE=%d", i))
	}
}

// TestLookup_AllocatesNothing checks that the code before every launch allocates nothing.
func TestLookup_AllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, lookup(t)); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	look := lookup(b)
	for b.Loop() {
		look()
	}
}

// lookup looks up the module of the norm's gradient, which has the most macros.
func lookup(t testing.TB) func() {
	d := &Device{gpu: &gpu{GPU: new(cuda.GPU), modules: map[build]*cuda.Module{}}}
	x := tensor.Tensor{Addr: align, DType: tensor.BF16, Shape: []int{1, 2048}}
	m, g := d.normRingGrid(x, x)
	d.gpu.modules[build{"op_rmsnorm.cu", m, g.threads.Count()}] = new(cuda.Module)
	return func() {
		m, g := d.normRingGrid(x, x)
		if _, err := d.gpu.module(build{"op_rmsnorm.cu", m, g.threads.Count()}); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownSource(t *testing.T) {
	if _, err := (build{source: "none.cu"}).program(); err == nil || !strings.Contains(err.Error(), "none.cu") {
		t.Error(err)
	}
}

// TestArguments_InLowBytes checks that each argument is in the low bytes of its word, as the driver reads it.
func TestArguments_InLowBytes(t *testing.T) {
	for name, test := range map[string]struct {
		made argument
		word uint64
	}{
		"address": {addr(tensor.Tensor{Addr: 1 << 40}), 1 << 40},
		"none":    {addr(tensor.Tensor{}), 0},
		"int":     {i32(-1), 0xFFFF_FFFF},
		"long":    {i64(1 << 40), 1 << 40},
		"float":   {f32(-2), 0xC000_0000},
		"double":  {f64(-2), 0xC000_0000_0000_0000},
		"true":    {flag(true), 1},
		"false":   {flag(false), 0},
	} {
		if test.made.word != test.word {
			t.Errorf("%s: %#x, not %#x", name, test.made.word, test.word)
		}
	}
	MustPanic(t, "a large int", "launch: 2147483648: must fit", func() { i32(1 << 31) })
}

// TestSquaresGrid checks for a thread block for every 256 threads that read eight vectors each, but no more thread
// blocks than the second kernel adds up fast.
func TestSquaresGrid(t *testing.T) {
	for bytes, blocks := range map[int]int{0: 0, 1: 1, 32 << 10: 1, 32<<10 + 1: 2, 128 << 20: 4096, 5 << 30: 4096} {
		if got := squaresGrid(bytes); got != line(blocks, 256) {
			t.Errorf("%d bytes: %v, not %d blocks", bytes, got, blocks)
		}
	}
}
