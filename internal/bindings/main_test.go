package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// TestUpToDate checks that ops.go matches the C files.
func TestUpToDate(t *testing.T) {
	want, err := generate("../../kernels/cpu")
	expect.OK(t, err)
	got, err := os.ReadFile("../../kernels/cpu/ops.go")
	expect.OK(t, err)
	if !bytes.Equal(got, want) {
		t.Error("kernels/cpu/ops.go is not what its C files say: run go generate ./kernels/cpu")
	}
}

func TestBind(t *testing.T) {
	var prototypes, functions bytes.Buffer
	err := bind(&prototypes, &functions, `
// helper is no Go name.
static void helper(int x) {
}

int64_t cpu_without_comment(int x) {
}

// cpu_internal is for C.
void cpu_internal(int x) {
}

// HeadNorm is the norm of heads,
// one by one.
int64_t cpu_head_norm(matrix y, tensor x,
	int64_t kv_heads, float eps, bool add) {
}
`)
	expect.OK(t, err)
	const prototype = "int64_t cpu_head_norm(matrix y, tensor x, int64_t kv_heads, float eps, bool add);\n" +
		"#cgo noescape cpu_head_norm\n#cgo nocallback cpu_head_norm\n"
	if got := prototypes.String(); got != prototype {
		t.Errorf("prototypes:\n%s", got)
	}
	const function = `
// HeadNorm is the norm of heads,
// one by one.
func HeadNorm(y tensor.Matrix, x tensor.Tensor, kvHeads int, eps float32, add bool) int {
	return int(C.cpu_head_norm(c(y), c(x.Matrix()), C.int64_t(kvHeads), C.float(eps), C.bool(add)))
}
`
	if got := functions.String(); got != function {
		t.Errorf("functions:\n%s", got)
	}
	for source, want := range map[string]string{
		"// F is.\nvoid cpu_f(char c) {":    `cpu_f: parameter "char c"`,
		"// F is.\nfloat cpu_f(tensor x) {": "cpu_f returns float",
	} {
		if err := bind(&prototypes, &functions, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", source, err)
		}
	}
}
