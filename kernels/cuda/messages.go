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

// ErrNoDriver is the error of a machine on which NVIDIA's driver is not found.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Results of the driver. The names are its own.
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

const kernelFailed = "a kernel failed, which is a mistake of restyle's if it comes again at the same place: " +
	"docs/gpu.md says how the kernel is found"

// cures are what to do about a result of the driver, where that does not depend on the machine.
var cures = map[int]string{
	stubLibrary: "this libcuda is CUDA's stub, which programs are linked with and which does nothing: take its folder out of " +
		"LD_LIBRARY_PATH, or have RESTYLE_CUDA name the libcuda.so.1 of the driver",
	deviceUnavailable: "another process has the GPU for itself: wait until it ends, or take another GPU; " +
		"nvidia-smi lists who has it",
	noBinaryForGPU:   "NVRTC is older than the GPU: install a newer one",
	unsupportedPTX:   "NVRTC is newer than the driver: update the driver, or install an older NVRTC",
	eccUncorrectable: "the GPU's memory is damaged: restart the machine; if it comes again, have the GPU replaced (nvidia-smi -q -d ECC counts)",
	illegalAddress: "a kernel left its memory, which is a mistake of restyle's if it comes again at the same place: " +
		"docs/gpu.md says how the kernel is found",
	launchTimeout:       "the system ended a kernel that took seconds, as it does on a GPU with a screen: use one without, or make the batches smaller",
	illegalInstruction:  kernelFailed,
	misalignedAddress:   kernelFailed,
	invalidAddressSpace: kernelFailed,
	launchFailed:        kernelFailed,
	systemNotReady:      "the service that connects the GPUs has not started: start it with systemctl start nvidia-fabricmanager",
	compatUnsupported:   "this libcuda is of CUDA's package cuda-compat, which this GPU does not support: take its folder out of LD_LIBRARY_PATH",
	unknown:             "the driver does not know why: dmesg may have a line of NVRM with an Xid; restart the machine if it comes again",
}

// faults are the results after which a GPU, or the driver, is in order again for a new process, as far as anybody knows.
var faults = []int{eccUncorrectable, illegalAddress, launchTimeout, illegalInstruction, misalignedAddress, invalidAddressSpace, launchFailed, unknown}

// Fault says whether err comes from a GPU that failed while it was used. Nothing more can be done with it, and a new process may
// go on from what was saved.
func Fault(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.opening && slices.Contains(faults, e.Code)
}

// Busy says whether err comes from a GPU that could not be taken into use because another process has it for itself, or has filled it.
func Busy(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.opening && (e.Code == deviceUnavailable || e.Code == outOfMemory)
}

// root is the machine's files.
var root = os.DirFS("/")

func there(files fs.FS, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}

// place is where the program runs, as far as that decides where the driver is.
func place(files fs.FS) (container, wsl bool) {
	container = there(files, ".dockerenv") || there(files, "run/.containerenv") || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	version, _ := fs.ReadFile(files, "proc/version") // without it, it is no WSL
	return container, strings.Contains(strings.ToLower(string(version)), "microsoft")
}

// withoutDriver says what to do where there is no libcuda.
func withoutDriver(files fs.FS) string {
	container, wsl := place(files)
	switch {
	case runtime.GOOS != "linux":
		return "on " + runtime.GOOS + " there is none"
	case container && there(files, "dev/nvidiactl"):
		return "this container has the GPU and not the driver's libraries: start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	case container:
		return "this container has no GPU: start it with docker run --gpus all, on a machine that has NVIDIA's package nvidia-container-toolkit"
	case wsl:
		return "WSL takes the driver of Windows: install NVIDIA's there, and then run wsl --update and wsl --shutdown in Windows"
	case there(files, "proc/driver/nvidia/version"):
		return "its part in the kernel is there and its library libcuda is not: install that from where the driver came from"
	}
	return "if this machine has an NVIDIA GPU, install its driver"
}

// withoutDevice says what to do where the driver finds no GPU. sliced is how many are cut into MIG slices.
func withoutDevice(files fs.FS, sliced int) string {
	container, wsl := place(files)
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	switch {
	case set:
		return fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q, which leaves none: nvidia-smi -L lists what it may name", visible)
	case sliced > 0:
		return "the GPU is cut into MIG slices and has none that can be used: nvidia-smi mig -lgip lists sizes, and nvidia-smi mig -cgi SIZE -C makes one"
	case container:
		return "this container has no GPU: start it with docker run --gpus all, on a machine that has NVIDIA's package nvidia-container-toolkit"
	case wsl:
		return "WSL shows none: update NVIDIA's driver in Windows, and then run wsl --update and wsl --shutdown in Windows"
	}
	return "nvidia-smi -L lists those that the driver sees: if it lists none either, look whether the GPU is in its slot and dmesg for NVRM"
}

// mismatch says what to do where libcuda and the kernel's part of the driver are of two versions.
func mismatch(files fs.FS) string {
	if container, _ := place(files); container {
		return "the container brings a libcuda of its own that is not of the machine's driver: take it out of the image, or its folder out of LD_LIBRARY_PATH"
	}
	return "the driver was updated and its part in the kernel is still the old one: restart the machine"
}
