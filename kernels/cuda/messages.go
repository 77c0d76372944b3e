package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
)

// ErrNoDriver is the error of a machine without NVIDIA's driver.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Results of the driver, under its own names.
const (
	outOfMemory         = 2
	stubLibrary         = 34
	deviceUnavailable   = 46
	noDevice            = 100
	noBinaryForGPU      = 209
	eccUncorrectable    = 214
	unsupportedPTX      = 222
	illegalAddress      = 700
	launchTimeout       = 702
	illegalInstruction  = 715
	misalignedAddress   = 716
	invalidAddressSpace = 717
	launchFailed        = 719
	systemNotReady      = 802
	driverMismatch      = 803
	compatUnsupported   = 804
	unknown             = 999
)

const kernelFailed = "a kernel failed: if it fails again at the same place, that is a bug in restyle: " +
	"docs/debugging.md says how to find the kernel"

// earlyRefused has the results of a driver that cannot capture early launches: invalid value, not supported, and of a
// capture: unsupported, invalidated, unjoined and isolation.
var earlyRefused = []int{1, 801, 900, 901, 904, 905}

// cures has the remedies for results of the driver, if they do not depend on the machine.
var cures = map[int]string{
	stubLibrary: "this libcuda is CUDA's stub, which exists only for linking: remove its directory from " +
		"LD_LIBRARY_PATH, or set RESTYLE_CUDA to the driver's libcuda.so.1",
	deviceUnavailable: "another process uses the GPU exclusively: wait until it ends, or use another GPU; " +
		"nvidia-smi shows which",
	noBinaryForGPU: "NVRTC is older than the GPU: install a newer one",
	unsupportedPTX: "NVRTC is newer than the driver: update the driver, or install an older NVRTC",
	eccUncorrectable: "the GPU's memory is damaged: restart the machine; if it happens again, have the GPU replaced " +
		"(nvidia-smi -q -d ECC counts)",
	illegalAddress: "a kernel accessed memory outside its allocations: if it does so " +
		"again at the same place, that is a bug in restyle: " +
		"docs/debugging.md says how to find the kernel",
	launchTimeout: "the system stopped a kernel after seconds, as it does on a GPU with a display: use a GPU " +
		"without one, or smaller batches",
	illegalInstruction:  kernelFailed,
	misalignedAddress:   kernelFailed,
	invalidAddressSpace: kernelFailed,
	launchFailed:        kernelFailed,
	systemNotReady: "the service that connects the GPUs is not running: start it with systemctl start " +
		"nvidia-fabricmanager",
	compatUnsupported: "this libcuda is from CUDA's package cuda-compat, which this GPU does " +
		"not support: remove its directory from LD_LIBRARY_PATH",
	unknown: "the driver does not know why: dmesg may have a line with NVRM and Xid; if it happens again, " +
		"restart the machine",
}

// faults are the results after which, as far as is known, a GPU or the driver works again for a new process.
var faults = []int{eccUncorrectable, illegalAddress, launchTimeout, illegalInstruction, misalignedAddress,
	invalidAddressSpace, launchFailed, unknown}

// Fault reports whether err comes from a GPU that failed during use. Nothing more can be done with it; a new process
// may resume from what was saved.
func Fault(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.opening && slices.Contains(faults, e.Code)
}

// Busy reports whether err comes from a GPU that could not be opened because another process uses it exclusively, or
// has filled it.
func Busy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.opening && (e.Code == deviceUnavailable || e.Code == outOfMemory)
}

// root is the machine's file system.
var root = os.DirFS("/")

func there(files fs.FS, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}

// place reports what decides where to look for the driver: whether the program runs in a container, and in WSL.
func place(files fs.FS) (container, wsl bool) {
	container = there(files, ".dockerenv") || there(files, "run/.containerenv") ||
		os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	version, _ := fs.ReadFile(files, "proc/version") // a machine without this file is not WSL
	return container, strings.Contains(strings.ToLower(string(version)), "microsoft")
}

// withoutDriver returns the remedy for a machine without libcuda.
func withoutDriver(files fs.FS) string {
	container, wsl := place(files)
	switch {
	case runtime.GOOS != "linux":
		return "there is none for " + runtime.GOOS
	case container && there(files, "dev/nvidiactl"):
		return "this container has the GPU but not the driver's libraries: start it with " +
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case container:
		return "this container has no GPU: start it with docker run --gpus all, on a machine with NVIDIA's package " +
			"nvidia-container-toolkit"
	case wsl:
		return "WSL uses the driver of Windows: install NVIDIA's there, then run wsl --update and wsl --shutdown in Windows"
	case there(files, "proc/driver/nvidia/version"):
		return "its kernel module is installed but its library libcuda is not: install that from the same source as the " +
			"driver"
	}
	return "if this machine has an NVIDIA GPU, install its driver"
}

// withoutDevice returns the remedy for a driver that finds no GPU. sliced is the number of GPUs that are divided into
// MIG slices.
func withoutDevice(files fs.FS, sliced int) string {
	container, wsl := place(files)
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	switch {
	case set:
		return fmt.Sprintf("CUDA_VISIBLE_DEVICES %q: excludes all GPUs: nvidia-smi -L lists what it may name", visible)
	case sliced > 0:
		return "the GPU is divided into MIG slices, but none can be used: nvidia-smi mig -lgip lists sizes, and nvidia-smi " +
			"mig -cgi SIZE -C creates one"
	case container:
		return "this container has no GPU: start it with docker run --gpus all, on a machine with NVIDIA's package " +
			"nvidia-container-toolkit"
	case wsl:
		return "WSL shows none: update NVIDIA's driver in Windows, then run wsl --update and wsl --shutdown in Windows"
	}
	return "nvidia-smi -L lists those that the driver sees: if it lists none either, check that the GPU is in its slot, " +
		"and search dmesg for NVRM"
}

// mismatch returns the remedy if libcuda and the driver's kernel module have different versions.
func mismatch(files fs.FS) string {
	if container, _ := place(files); container {
		return "the container has a libcuda of its own that does not match the machine's driver: remove it from the image, " +
			"or its directory from LD_LIBRARY_PATH"
	}
	return "the driver was updated, but the old kernel module is still loaded: restart the machine"
}
