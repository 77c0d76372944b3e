package cuda

// #include "shim.h"
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"restyle/internal/disk"
)

// Choices are the algorithms of products, by the text of their Shape: what Plan.Algorithm says of one, or "" for cuBLASLt's first.
// They mean something to the same library on a GPU of the same model: see BLAS.String.
type Choices map[string]string

// String is the library and what it runs on: all that the algorithms follow from. Two patches of a version say the same of
// themselves, so it has the file's size too.
func (b *BLAS) String() string {
	return fmt.Sprintf("%s (%d multiprocessors) with cuBLASLt %d (%d bytes)", b.gpu.Name, b.gpu.SMs, b.Version, fileSize(b.Path))
}

// String is everything of a product that its algorithm depends on.
func (s Shape) String() string {
	form := func(transposed bool) string { return map[bool]string{false: "", true: "T"}[transposed] }
	text := fmt.Sprintf("%dx%dx%d A%s(%d)·B%s(%d)=C(%d) %v>%v align %d,%d,%d in %d", s.M, s.N, s.K, form(s.TransA), s.LDA, form(s.TransB), s.LDB,
		s.LDC, s.Type, s.Result, s.AlignA, s.AlignB, s.AlignC, s.Workspace)
	if s.Batch > 1 {
		text += fmt.Sprintf(" × %d, %d,%d,%d apart", s.Batch, s.NextA, s.NextB, s.NextC)
	}
	if s.Bias {
		text += " + bias"
	}
	return text
}

// Algorithm is one of the plan's algorithms, as text to keep.
func (p *Plan) Algorithm(i int) string {
	var b [C.CUDA_ALGORITHM_BYTES]byte
	C.cuda_algorithm(p.handle, C.int(i), unsafe.Pointer(&b[0]))
	return hex.EncodeToString(b[:])
}

// Use puts an algorithm that was kept in the place of the plan's first. An error, of text that is none or of one that cannot compute
// the product with so many bytes of workspace, does not stick.
func (p *Plan) Use(algorithm string, workspace int) error {
	b, err := hex.DecodeString(algorithm)
	if err != nil || len(b) != C.CUDA_ALGORITHM_BYTES {
		return fmt.Errorf("%q is no algorithm of cuBLASLt: it has %d bytes in hexadecimal", algorithm, C.CUDA_ALGORITHM_BYTES)
	}
	if s := C.cuda_use_algorithm(p.gpu.handle, p.handle, unsafe.Pointer(&b[0]), C.uint64_t(workspace)); s.code != 0 {
		return newError("use algorithm "+algorithm, s)
	}
	return nil
}

// Choices are those of earlier runs of the same library on such a GPU. There are none if the file is damaged.
func (cache Cache) Choices(b *BLAS) Choices {
	file, err := read(cache.choices(b))
	if image, ok := unsealed(file); err == nil && ok {
		return parseChoices(image)
	}
	return Choices{}
}

func parseChoices(text []byte) (c Choices) {
	if json.Unmarshal(text, &c) != nil || c == nil {
		return Choices{}
	}
	return c
}

// KeepChoices adds choices to those of earlier runs. A folder that cannot be written to costs time, not more.
func (cache Cache) KeepChoices(b *BLAS, c Choices) {
	all := cache.Choices(b)
	maps.Copy(all, c)
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil && cache.Dir != "" && os.MkdirAll(cache.Dir, 0o700) == nil {
		_ = disk.Write(cache.choices(b), sealed(append(text, '\n')), 0o600)
	}
}

// choices is the file.
func (cache Cache) choices(b *BLAS) string {
	sum := sha256.Sum256([]byte("1 " + b.String()))
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' {
			return '-'
		}
		return r
	}, b.gpu.Name)
	return filepath.Join(cache.Dir, fmt.Sprintf("products-%s-%x.json", name, sum[:16]))
}
