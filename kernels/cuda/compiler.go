package cuda

/*
#include <stdlib.h>
#include "shim.h"

#cgo noescape cuda_open_compiler
#cgo nocallback cuda_open_compiler
#cgo nocallback cuda_preload
*/
import "C"

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"
)

// A Compiler is NVRTC. It needs neither a GPU nor a driver. Any goroutine may use it.
type Compiler struct {
	Major, Minor int    // version: 13 and 0 for CUDA 13.0
	Path         string // the library's file
	Archs        []int  // the compute capabilities that it compiles for, ascending: 90 for 9.0
	handle       C.uintptr_t
}

// OpenCompiler opens NVRTC for a GPU; the zero Properties mean any GPU. It looks in the file that RESTYLE_NVRTC names,
// or in the directories of CUDA's toolkits and of pip's and conda's packages, and takes the first library that compiles
// for the GPU, or else the first, but never one whose code the GPU's driver would not load. The error has the command
// that installs NVRTC.
func OpenCompiler(p Properties) (*Compiler, error) {
	return openCompiler(libnvrtc.paths(p.Driver), p)
}

func openCompiler(paths []string, gpu Properties) (first *Compiler, err error) {
	missing := fmt.Sprintf("NVRTC, CUDA's run-time compiler, is missing: install it with %s, or have RESTYLE_NVRTC name "+
		"its file", libnvrtc.install(gpu.Driver))
	var suits *Compiler
	err = search(missing, paths, func(path string, message *C.char, size C.int) bool {
		c := tryCompiler(path, message, size)
		if c != nil && first == nil {
			first = c
		}
		if c != nil && (gpu.Major == 0 || c.Older(gpu) == "") {
			suits = c
		}
		return suits != nil
	})
	if suits != nil || first == nil {
		return suits, err
	}
	return first, nil
}

// tryCompiler opens the library at a path, or writes the reason for the failure to message.
func tryCompiler(path string, message *C.char, size C.int) *Compiler {
	preloadBuiltins(path)
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var c C.cuda_compiler
	if C.cuda_open_compiler(p, &c, message, size) == 0 {
		return nil
	}
	var archs []int
	for _, a := range c.archs[:c.count] {
		archs = append(archs, int(a))
	}
	slices.Sort(archs)
	return &Compiler{int(c.major), int(c.minor), C.GoString(&c.path[0]), archs, c.compiler}
}

// Older returns what it means and what to do if the compiler is too old to make code for exactly this GPU, and ""
// otherwise.
func (c *Compiler) Older(gpu Properties) string {
	arch, err := c.Arch(gpu.Major, gpu.Minor)
	if err == nil && !strings.HasPrefix(arch, "compute_") {
		return ""
	}
	return fmt.Sprintf("NVRTC %d.%d in %s is older than %s, of compute capability %d.%d: the driver compiles what it "+
		"makes, and kernels may be slower: install a newer one with %s --upgrade",
		c.Major, c.Minor, c.Path, gpu.Name, gpu.Major, gpu.Minor, libnvrtc.install(gpu.Driver))
}

// preloadBuiltins opens libnvrtc-builtins if it is next to an NVRTC that was opened by its path: some builds look for
// it only where the loader does, and then fail at the first compilation.
func preloadBuiltins(path string) {
	if filepath.Base(path) == path {
		return
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "libnvrtc-builtins.so.*"))
	for _, f := range files {
		p := C.CString(f)
		C.cuda_preload(p) // if a failure matters, NVRTC will report it
		C.free(unsafe.Pointer(p))
	}
}

// Arch returns the target to compile for, given a GPU's compute capability: the GPU's own machine code if the compiler
// knows it, with the features that only that GPU has ("sm_90a"); or the code of the nearest older GPU of the same
// generation ("sm_86" for an 8.9), which runs unchanged; or else PTX for the newest GPU that the compiler knows
// ("compute_90"), which the driver compiles on loading. A GPU older than all of them is an error.
func (c *Compiler) Arch(major, minor int) (string, error) {
	capability := 10*major + minor
	older := slices.DeleteFunc(slices.Clone(c.Archs), func(a int) bool { return a > capability })
	if len(older) == 0 {
		return "", fmt.Errorf("GPU of compute capability %d.%d: NVRTC %d.%d in %s compiles for %v: install that of an "+
			"older CUDA, or use the CPU", major, minor, c.Major, c.Minor, c.Path, c.Archs)
	}
	switch best := older[len(older)-1]; {
	case best == capability && major >= 9:
		return fmt.Sprintf("sm_%da", best), nil
	case best/10 == major:
		return fmt.Sprintf("sm_%d", best), nil
	default:
		return fmt.Sprintf("compute_%d", best), nil
	}
}

// A Program is a source to compile.
type Program struct {
	Name    string            // for messages: "op_rmsnorm.cu"
	Source  string            // CUDA C++
	Headers map[string]string // by the names in #include directives; there are no other headers
	Options []string          // such as "-DDIM=2048"
}

// options returns the options for every source, followed by the program's own.
func (p Program) options(arch string) []string {
	return append([]string{"--std=c++17", "-default-device", "--gpu-architecture=" + arch}, p.Options...)
}

// Compile compiles a program for what Arch returned. It returns the image for Load, and the compiler's log, which may
// be nonempty even without an error. The error includes the log.
func (c *Compiler) Compile(p Program, arch string) (image []byte, log string, err error) {
	var texts []*C.char
	text := func(s string) *C.char {
		texts = append(texts, C.CString(s))
		return texts[len(texts)-1]
	}
	var contents, names, options []*C.char
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		names = append(names, text(name))
		contents = append(contents, text(p.Headers[name]))
	}
	for _, o := range p.options(arch) {
		options = append(options, text(o))
	}
	ptx := C.int(0)
	if arch[:min(3, len(arch))] != "sm_" {
		ptx = 1
	}
	var out C.cuda_image
	s := C.cuda_compile(c.handle, text(p.Name), text(p.Source), C.int(len(names)), unsafe.SliceData(contents),
		unsafe.SliceData(names), C.int(len(options)), unsafe.SliceData(options), ptx, &out)
	if out.log != nil {
		log = C.GoString(out.log)
	}
	image = C.GoBytes(unsafe.Pointer(out.image), C.int(out.bytes))
	C.free(unsafe.Pointer(out.image))
	C.free(unsafe.Pointer(out.log))
	for _, s := range texts {
		C.free(unsafe.Pointer(s))
	}
	if s.code != 0 {
		err = newError(fmt.Sprintf("compile %s for %s", p.Name, arch), s)
		if log != "" {
			err = fmt.Errorf("%w\n%s", err, log)
		}
		return nil, log, err
	}
	return image, log, nil
}
