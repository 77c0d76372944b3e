package cuda

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"restyle/internal/disk"
)

//go:embed emulator/*.cpp emulator/*.h api.h blas.h nccl_api.h
var emulatedSources embed.FS

// ErrNoCompiler is the error of a machine that cannot build the emulated GPU: it has no C++ compiler, or is not Linux
// on x86-64 or arm64, which the fibers and modules of the emulated GPU need. It is an errors.ErrUnsupported.
var ErrNoCompiler error = noCompiler{}

type noCompiler struct{}

func (noCompiler) Error() string {
	return "the emulated GPU needs Linux on x86-64 or arm64 and a C++ compiler: install g++ or clang++, or name one in " +
		"the environment variable CXX"
}

func (noCompiler) Is(err error) bool { return err == errors.ErrUnsupported }

// OpenEmulated opens a GPU that is emulated on the CPU, with its compiler, to find errors in kernels without a GPU. It
// takes the same sources and gives the same results, a thousand times slower. The machine's C++ compiler builds its
// library at the first call; the cache stores it.
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

// OpenEmulatedBLAS opens the emulated GPU's stand-in for cuBLASLt.
func OpenEmulatedBLAS(g *GPU) (*BLAS, error) {
	library, err := emulator(DefaultCache())
	if err != nil {
		return nil, err
	}
	return openBLAS(g, []string{library})
}

// targets reports whether a compiler, by its answer to -dumpmachine, makes code for the machine that this program was
// built for.
func targets(machine string) bool {
	name := map[string]string{"amd64": "x86_64-", "arm64": "aarch64-"}[runtime.GOARCH]
	return name != "" && strings.HasPrefix(machine, name)
}

// emulator returns the file of the library. It builds it if the cache has none from the same source and compiler.
func emulator(cache Cache) (string, error) {
	cxx, err := cxx()
	if err != nil {
		return "", err
	}
	key, err := emulatedKey(cxx)
	if err != nil {
		return "", err
	}
	version := binary.LittleEndian.Uint32(key) >> 1 // code of an older emulation does not run on this one
	root, err := cache.open()
	if err == nil && root == nil {
		err = errors.New("the emulated GPU needs a directory for compiled code that can be written: set RESTYLE_CACHE")
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := fmt.Sprintf("emulated-%x.so", key[:16])
	path := filepath.Join(cache.Dir, name)
	if _, ok := read(root, name); ok {
		return path, nil
	}
	work, err := os.MkdirTemp("", "restyle-emulated-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, emulatedSources); err != nil {
		return "", err
	}
	parts := filepath.Join(work, "emulator")
	device, err := emulatedSources.ReadFile("emulator/device.h") // its text is part of the library
	if err == nil {
		text := fmt.Sprintf("R\"EMULATED(%s)EMULATED\"\n", device)
		err = os.WriteFile(filepath.Join(parts, "device_text.h"), []byte(text), 0o600)
	}
	if err != nil {
		return "", err
	}
	out := filepath.Join(work, "driver.so")
	arguments := []string{"-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
		fmt.Sprintf("-DCOMPILER_PATH=%q", cxx), fmt.Sprintf("-DEMULATED_VERSION=%d", version)}
	files, _ := fs.Glob(emulatedSources, "emulator/*.cpp") // the pattern is valid
	for _, name := range files {
		arguments = append(arguments, filepath.Join(work, name))
	}
	command := exec.Command(cxx, append(arguments, "-o", out, "-ldl", "-lpthread")...)
	if said, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the emulated GPU with %s: %w\n%s", cxx, err, said)
	}
	image, err := disk.ReadInput(out, maxImage)
	if err != nil {
		return "", err
	}
	return path, disk.WriteIn(root, name, sealed(image), 0o600) // the loader ignores the checksum at the end
}

// emulatedKey returns a hash of all that the library depends on.
func emulatedKey(cxx string) ([]byte, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s", cxx, versionOf(cxx))
	err := fs.WalkDir(emulatedSources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := emulatedSources.ReadFile(name)
		fmt.Fprintf(sum, "\x00%s\x00%s", name, text)
		return err
	})
	return sum.Sum(nil), err
}

// versionOf returns the version that a compiler reports. A newer compiler in the same place makes different code.
func versionOf(cxx string) string {
	said, err := exec.Command(cxx, "--version").CombinedOutput()
	return fmt.Sprint(string(said), err)
}

// cxx returns the path of the machine's C++ compiler.
func cxx() (string, error) {
	if runtime.GOOS != "linux" || (runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
		return "", fmt.Errorf("%w: this is %s on %s", ErrNoCompiler, runtime.GOOS, runtime.GOARCH)
	}
	for _, name := range []string{os.Getenv("CXX"), "g++", "clang++", "c++"} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if machine, err := exec.Command(path, "-dumpmachine").Output(); err == nil && !targets(string(machine)) {
			return "", fmt.Errorf("%w: %s makes code for %s", ErrNoCompiler, path, bytes.TrimSpace(machine))
		}
		return filepath.Abs(path)
	}
	return "", ErrNoCompiler
}
