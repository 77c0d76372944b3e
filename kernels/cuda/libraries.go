package cuda

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// driverPaths is where libcuda is looked for. A bare name goes through the loader's own search. It is never libcuda.so:
// that one comes with the toolkit and is empty.
func driverPaths() []string {
	const name = "libcuda.so.1"
	return []string{name, "/usr/lib/wsl/lib/" + name, "/usr/local/nvidia/lib64/" + name, "/run/opengl-driver/lib/" + name}
}

// compilerPaths is where NVRTC is looked for: in the file that RESTYLE_NVRTC names, and nowhere else if it is set; where
// the loader looks; in CUDA's toolkits; in the folders of pip's and conda's packages. A driver loads the machine code of its
// own major version of CUDA and of older ones: newest is that version, 0 for any.
func compilerPaths(newest int) []string { return libraryPaths("RESTYLE_NVRTC", "libnvrtc", newest) }

// libraryPaths is where a library of CUDA's is looked for, whose file an environment variable may name.
func libraryPaths(variable, library string, newest int) []string {
	if file := os.Getenv(variable); file != "" {
		return []string{file}
	}
	var names []string
	for major := 13; major >= 12; major-- {
		if newest == 0 || major <= newest {
			names = append(names, fmt.Sprintf("%s.so.%d", library, major))
		}
	}
	paths := names
	for _, folder := range folders() {
		for _, name := range names {
			if file := filepath.Join(folder, name); exists(file) {
				paths = append(paths, file)
			}
		}
	}
	return paths
}

// blasPaths is compilerPaths for cuBLASLt, whose file RESTYLE_CUBLASLT may name.
func blasPaths(newest int) []string { return libraryPaths("RESTYLE_CUBLASLT", "libcublasLt", newest) }

// folders are those that are there of the ones where CUDA's libraries are installed.
func folders() []string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "sbsa"}[runtime.GOARCH]
	var patterns []string
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda", "/usr/local/cuda-*"} {
		if root != "" {
			patterns = append(patterns, root+"/lib64", root+"/targets/"+machine+"-linux/lib")
		}
	}
	for _, prefix := range pythons() {
		packages := prefix + "/lib/python3*/*-packages/nvidia" // Debian's are dist-packages
		patterns = append(patterns, prefix+"/lib/libnvrtc.so.*/..", packages+"/cu13/lib", packages+"/cuda_nvrtc/lib", packages+"/cublas/lib")
	}
	var found []string
	for _, p := range patterns {
		match, _ := filepath.Glob(p) // the only error is a pattern that is none, of which the environment may have some
		found = append(found, match...)
	}
	return found
}

// pythons are the prefixes of the Python installations whose packages a user may expect to be found: the activated one, the
// one that the command python3 runs, the user's, the system's.
func pythons() []string {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	if python, err := exec.LookPath("python3"); err == nil {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
	}
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	var known []string
	for _, p := range append(prefixes, "/usr/local", "/usr") {
		if p != "" {
			known = append(known, p)
		}
	}
	return known
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// search opens the first library that opens. The error lists every path with what was wrong, in one line.
func search(failure string, paths []string, open func(path string, message *C.char, size C.int) bool) error {
	var tried []string
	for _, path := range paths {
		var message [1024]C.char
		if open(path, &message[0], C.int(len(message))) {
			return nil
		}
		wrong := strings.TrimPrefix(C.GoString(&message[0]), path+": ")
		if wrong == "cannot open shared object file: No such file or directory" { // of this library, not of one that it needs
			wrong = "not there"
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", path, wrong))
	}
	return fmt.Errorf("%s: tried %s", failure, strings.Join(tried, ", "))
}
