package cuda

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A library describes one of NVIDIA's libraries, which are opened while the program runs, and where to look for it:
// only in the file that the variable names, if it is set; otherwise where the loader looks, and then in the directories
// of the driver, or of CUDA's toolkits, conda and pip's packages.
type library struct {
	// file is the name. "%d" in it stands for CUDA's major version. It never lacks a number: libcuda.so is a stub.
	file     string
	variable string
	driver   bool   // whether it comes with the driver, in one version
	wheel    string // the directory of pip's package for CUDA 12, in site-packages/nvidia; for CUDA 13 all share one
	pip      string // the name of pip's package for CUDA 13
}

var (
	libcuda     = library{file: "libcuda.so.1", variable: "RESTYLE_CUDA", driver: true}
	libnvml     = library{file: "libnvidia-ml.so.1", variable: "RESTYLE_NVML", driver: true}
	libnvrtc    = library{file: "libnvrtc.so.%d", variable: "RESTYLE_NVRTC", wheel: "cuda_nvrtc", pip: "nvidia-cuda-nvrtc"}
	libcublasLt = library{file: "libcublasLt.so.%d", variable: "RESTYLE_CUBLASLT", wheel: "cublas", pip: "nvidia-cublas"}
	libnccl     = library{file: "libnccl.so.2", variable: "RESTYLE_NCCL", wheel: "nccl"}

	// NVTX of CUDA 13, and of CUDA 12.
	libnvtx       = library{file: "libnvtx3interop.so.1", variable: "RESTYLE_NVTX", pip: "nvidia-nvtx"}
	libnvToolsExt = library{file: "libnvToolsExt.so.1", variable: "RESTYLE_NVTX", wheel: "nvtx", pip: "nvidia-nvtx"}
)

// The supported versions of CUDA. A library works with every driver of the same major version or a newer one.
const oldestCUDA, newestCUDA = 12, 13

// paths returns where to look for the library, in order. driver is the newest CUDA that the driver supports, as 13000
// for 13.0, or 0 for any. A bare name goes through the loader's own search.
func (l library) paths(driver int) []string {
	if file := os.Getenv(l.variable); file != "" {
		return []string{file}
	}
	if l.driver {
		return []string{l.file, "/usr/lib/wsl/lib/" + l.file, "/usr/local/nvidia/lib64/" + l.file,
			"/run/opengl-driver/lib/" + l.file}
	}
	var names []string
	for major := newestCUDA; major >= oldestCUDA; major-- {
		if driver == 0 || major <= driver/1000 {
			names = append(names, strings.ReplaceAll(l.file, "%d", strconv.Itoa(major)))
		}
	}
	names = slices.Compact(names) // some files have a number of their own
	paths := names
	for _, pattern := range l.folders() {
		for _, name := range names {
			// an invalid pattern finds nothing: a path may contain any character
			found, _ := filepath.Glob(filepath.Join(pattern, name))
			paths = append(paths, found...)
		}
	}
	return paths
}

// folders returns patterns of the directories in which toolkits, conda and pip install CUDA's libraries.
func (l library) folders() (patterns []string) {
	machine := map[string]string{"amd64": "x86_64", "arm64": "sbsa"}[runtime.GOARCH]
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda",
		"/usr/local/cuda-*"} {
		if root != "" {
			patterns = append(patterns, root+"/lib64", root+"/targets/"+machine+"-linux/lib")
		}
	}
	prefixes := pythons()
	for _, prefix := range prefixes {
		patterns = append(patterns, prefix+"/lib")
	}
	for _, prefix := range prefixes {
		packages := prefix + "/lib*/python3*/*-packages/nvidia/" // Fedora has lib64, and Debian dist-packages
		patterns = append(patterns, packages+"cu13/lib", packages+l.wheel+"/lib")
	}
	return patterns
}

// install returns the command that installs the library for a driver that supports this CUDA, or for the newest CUDA if
// driver is 0. A library of an older major version than the driver's also works; a newer one does not.
func (l library) install(driver int) string {
	if driver != 0 && driver/1000 < newestCUDA {
		return fmt.Sprintf("pip install %s-cu%d", l.pip, oldestCUDA)
	}
	return "pip install " + l.pip
}

// pythons returns the prefixes of the Python installations whose packages a user may expect to be found: the active
// one, the one that the command python3 runs, the user's, and the system's.
func pythons() (prefixes []string) {
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(name); prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
	}
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	return append(prefixes, "/usr/local", "/usr")
}

// search opens the first library that can be opened. Its error lists every path with the reason, in one line.
func search(failure string, paths []string, open func(path string, message *C.char, size C.int) bool) error {
	var tried []string
	for _, path := range paths {
		var message [1024]C.char
		if open(path, &message[0], C.int(len(message))) {
			return nil
		}
		wrong := strings.TrimPrefix(C.GoString(&message[0]), path+": ")
		if wrong == "Dynamic loading not supported" { // musl, linked into the program
			return errors.New("this program is static and opens no libraries: take the build for glibc")
		}
		// this library is missing, not one that it depends on
		if wrong == "cannot open shared object file: No such file or directory" {
			wrong = "not there"
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", path, wrong))
	}
	return fmt.Errorf("%s: tried %s", failure, strings.Join(tried, ", "))
}
