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

// A Compiler is NVRTC. It needs neither a GPU nor a driver, and may be used from any goroutine.
type Compiler struct {
	Major, Minor int    // its version: 13 and 0 for CUDA 13.0
	Path         string // the library's file
	Archs        []int  // the compute capabilities that it compiles for, rising: 90 for 9.0
	handle       C.uintptr_t
}

// OpenCompiler finds NVRTC for a GPU, in the file that RESTYLE_NVRTC names or where CUDA's toolkits and the packages of pip and conda
// are: the first that compiles for the GPU, or else the first. None is taken whose code the GPU's driver would not load. No
// Properties are any GPU. The error has the command that installs one.
func OpenCompiler(p Properties) (*Compiler, error) {
	return openCompiler(libnvrtc.paths(p.Driver), p)
}

func openCompiler(paths []string, gpu Properties) (first *Compiler, err error) {
	missing := fmt.Sprintf("NVRTC, CUDA's run-time compiler, is missing: install it with %s, or have RESTYLE_NVRTC name its file", libnvrtc.install(gpu.Driver))
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

// tryCompiler opens the library at a path, or says why not.
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

// Older says, if the compiler is older than a GPU and makes no code of its own for it, what that means and what to do; "" if not.
func (c *Compiler) Older(gpu Properties) string {
	arch, err := c.Arch(gpu.Major, gpu.Minor)
	if err == nil && !strings.HasPrefix(arch, "compute_") {
		return ""
	}
	return fmt.Sprintf("NVRTC %d.%d in %s is older than %s, of compute capability %d.%d: the driver compiles what it makes, and kernels may be slower: install a newer one with %s --upgrade",
		c.Major, c.Minor, c.Path, gpu.Name, gpu.Major, gpu.Minor, libnvrtc.install(gpu.Driver))
}

// preloadBuiltins opens libnvrtc-builtins where it lies beside an NVRTC that is given by its path: some builds look for it
// only where the loader does, and then fail at the first compilation.
func preloadBuiltins(path string) {
	if filepath.Base(path) == path {
		return
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "libnvrtc-builtins.so.*"))
	for _, f := range files {
		p := C.CString(f)
		C.cuda_preload(p) // a failure is NVRTC's to report, if it matters
		C.free(unsafe.Pointer(p))
	}
}

// Arch is what to compile for, for a GPU of that compute capability: its own machine code where the compiler knows it, with
// what only that GPU has ("sm_90a"); the code of the nearest older GPU of the same generation ("sm_86" for an 8.9), which
// runs as it is; else PTX of the newest that the compiler knows ("compute_90"), which the driver compiles when it is loaded.
// A GPU older than all of them is an error.
func (c *Compiler) Arch(major, minor int) (string, error) {
	capability := 10*major + minor
	older := slices.DeleteFunc(slices.Clone(c.Archs), func(a int) bool { return a > capability })
	if len(older) == 0 {
		return "", fmt.Errorf("GPU of compute capability %d.%d: NVRTC %d.%d in %s compiles for %v: install that of an older CUDA, or use the CPU", major, minor, c.Major, c.Minor, c.Path, c.Archs)
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
	Name    string            // for messages: "rmsnorm.cu"
	Source  string            // CUDA C++
	Headers map[string]string // what an #include of each name finds; there are no others
	Options []string          // such as "-DDIM=2048"
}

// options are those that every source is compiled with, and its own.
func (p Program) options(arch string) []string {
	return append([]string{"--std=c++17", "-default-device", "--gpu-architecture=" + arch}, p.Options...)
}

// Compile compiles a program for what Arch named. It returns the image for Load, and what the compiler had to say, which may be
// something even when all is well. The error holds that too.
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
	s := C.cuda_compile(c.handle, text(p.Name), text(p.Source), C.int(len(names)), unsafe.SliceData(contents), unsafe.SliceData(names),
		C.int(len(options)), unsafe.SliceData(options), ptx, &out)
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
