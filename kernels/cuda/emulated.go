package cuda

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"restyle/internal/disk"
)

//go:embed emulated_driver.hpp
var emulatedDriver string

//go:embed emulated_device.hpp
var emulatedDevice string

//go:embed emulated_blas.hpp
var emulatedBLAS string

//go:embed api.h
var emulatedAPI string

//go:embed blas.h
var emulatedBLASAPI string

// ErrNoCompiler is the error of a machine without a C++ compiler, of which the emulated GPU is made.
var ErrNoCompiler = errors.New("the emulated GPU needs a C++ compiler: install g++ or clang++, or name one in the environment variable CXX")

// OpenEmulated opens a GPU that this machine's processor plays, with its compiler: for finding mistakes in kernels where there is
// no GPU. It takes the same sources and gives the same answers, a thousand times slower. The library that does it is made by the
// machine's C++ compiler at the first call, and kept in the cache.
func OpenEmulated(cache Cache) (*GPU, *Compiler, error) {
	library, err := emulator(cache)
	if err != nil {
		return nil, nil, err
	}
	g, err := open([]string{library}, 0)
	if err != nil {
		return nil, nil, err
	}
	c, err := openCompiler([]string{library}, g.Properties)
	if err != nil {
		return nil, nil, errors.Join(err, g.Close())
	}
	return g, c, nil
}

// OpenEmulatedBLAS opens its stand-in for cuBLASLt.
func OpenEmulatedBLAS(g *GPU) (*BLAS, error) {
	library, err := emulator(DefaultCache())
	if err != nil {
		return nil, err
	}
	return openBLAS(g, []string{library})
}

// emulator returns the file of the library, which it makes if the cache has none of the same source and compiler.
func emulator(cache Cache) (string, error) {
	cxx, err := cxx()
	if err != nil {
		return "", err
	}
	source := "static const char DEVICE_HPP[] = R\"EMULATED(" + emulatedDevice + ")EMULATED\";\n" + emulatedDriver + emulatedBLAS
	sum := sha256.Sum256([]byte(cxx + "\x00" + source + "\x00" + emulatedAPI + emulatedBLASAPI))
	version := binary.LittleEndian.Uint32(sum[:]) >> 1 // code that an older emulation made is no code for this one
	dir := cache.Dir
	if dir == "" {
		return "", errors.New("the emulated GPU needs a folder for what it compiles: set RESTYLE_CACHE to one")
	}
	path := filepath.Join(dir, fmt.Sprintf("emulated-%x.so", sum[:16]))
	if file, err := read(path); err == nil {
		if _, ok := unsealed(file); ok {
			return path, nil
		}
	}
	work, err := os.MkdirTemp("", "restyle-emulated-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for name, text := range map[string]string{"driver.cpp": source, "emulated_device.hpp": emulatedDevice, "api.h": emulatedAPI, "blas.h": emulatedBLASAPI} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	out := filepath.Join(work, "driver.so")
	command := exec.Command(cxx, "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden",
		fmt.Sprintf("-DCOMPILER_PATH=%q", cxx), fmt.Sprintf("-DEMULATED_VERSION=%d", version), filepath.Join(work, "driver.cpp"), "-o", out, "-ldl", "-lpthread")
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the emulated GPU with %s: %w\n%s", cxx, err, said)
	}
	image, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return path, disk.Write(path, sealed(image), 0o600) // the loader does not mind the sum behind it
}

// cxx is the machine's C++ compiler.
func cxx() (string, error) {
	for _, name := range []string{os.Getenv("CXX"), "g++", "clang++", "c++"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", ErrNoCompiler
}
