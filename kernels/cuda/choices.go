package cuda

// #include "shim.h"
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unsafe"

	"restyle/internal/disk"
)

// Choices maps products, as the text of their Shape, to their algorithms: what Plan.Algorithm returned, or "" for
// cuBLASLt's first. They are valid for the same library on a GPU of the same model: see BLAS.String.
type Choices map[string]string

// String identifies the library and the GPU, on which the algorithms depend. Two patches of a version report the same
// version, so it includes the file's size.
func (b *BLAS) String() string {
	return fmt.Sprintf("%s (%d multiprocessors) with cuBLASLt %d (%d bytes)", b.gpu.Name, b.gpu.SMs, b.Version,
		fileSize(b.Path))
}

// String describes everything about a product that its algorithm depends on.
func (s Shape) String() string {
	form := func(transposed bool) string { return map[bool]string{false: "", true: "T"}[transposed] }
	text := fmt.Sprintf("%dx%dx%d A%s(%d)·B%s(%d)=C(%d) %v>%v align %d,%d,%d in %d", s.M, s.N, s.K, form(s.TransA), s.LDA,
		form(s.TransB), s.LDB,
		s.LDC, s.Type, s.Result, s.AlignA, s.AlignB, s.AlignC, s.Workspace)
	if s.Batch > 1 {
		text += fmt.Sprintf(" × %d, %d,%d,%d apart", s.Batch, s.NextA, s.NextB, s.NextC)
	}
	if s.Bias {
		text += " + bias"
	}
	return text
}

// Algorithm returns one of the plan's algorithms as text, to be stored.
func (p *Plan) Algorithm(i int) string {
	var b [C.CUDA_ALGORITHM_BYTES]byte
	C.cuda_algorithm(p.handle, C.int(i), unsafe.Pointer(&b[0]))
	return hex.EncodeToString(b[:])
}

// Use replaces the plan's first algorithm by a stored one. It returns an error, which does not stick, if the text is
// invalid or if the algorithm cannot compute the product with workspace bytes of workspace.
func (p *Plan) Use(algorithm string, workspace int) error {
	b, err := hex.DecodeString(algorithm)
	if err != nil || len(b) != C.CUDA_ALGORITHM_BYTES {
		return fmt.Errorf("cuBLASLt algorithm %q: must be %d bytes in hexadecimal", algorithm, C.CUDA_ALGORITHM_BYTES)
	}
	if s := C.cuda_use_algorithm(p.gpu.handle, p.handle, unsafe.Pointer(&b[0]), C.uint64_t(workspace)); s.code != 0 {
		return newError("use algorithm "+algorithm, s)
	}
	return nil
}

// Choices returns the choices of earlier runs of the same library on a GPU of the same model. There are none if the
// file is damaged.
func (cache Cache) Choices(b *BLAS) Choices {
	root, err := cache.open()
	if err != nil || root == nil {
		return Choices{}
	}
	defer root.Close()
	image, ok := read(root, choicesName(b))
	if !ok {
		return Choices{}
	}
	return parseChoices(image)
}

func parseChoices(text []byte) (c Choices) {
	if json.Unmarshal(text, &c) != nil || c == nil {
		return Choices{}
	}
	return c
}

// KeepChoices adds choices to the choices of earlier runs. If the directory cannot be written to, only time is lost.
func (cache Cache) KeepChoices(b *BLAS, c Choices) {
	all := cache.Choices(b)
	maps.Copy(all, c)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return
	}
	if root, err := cache.open(); err == nil && root != nil {
		defer root.Close()
		_ = disk.WriteIn(root, choicesName(b), sealed(append(text, '\n')), 0o600)
	}
}

// choicesName returns the name of the file.
func choicesName(b *BLAS) string {
	sum := sha256.Sum256([]byte("1 " + b.String()))
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' {
			return '-'
		}
		return r
	}, b.gpu.Name)
	return fmt.Sprintf("products-%s-%x.json", name, sum[:16])
}
