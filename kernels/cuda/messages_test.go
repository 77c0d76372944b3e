package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"restyle/kernels/cuda/cudatest"
)

// machine replaces the machine's files while the test runs.
func machine(t *testing.T, files fs.FS) {
	t.Helper()
	before := root
	root = files
	t.Cleanup(func() { root = before })
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
}

var (
	plain     = fstest.MapFS{"proc/version": {Data: []byte("Linux version 6.8.0-31-generic")}}
	container = fstest.MapFS{".dockerenv": {}}
	podman    = fstest.MapFS{"run/.containerenv": {}}
	wsl       = fstest.MapFS{"proc/version": {Data: []byte("Linux version 5.15.153.1-microsoft-standard-WSL2")}}
)

// TestOpen_ErrorsSayWhatToDo checks that each error of opening a GPU says what is wrong and what to do.
func TestOpen_ErrorsSayWhatToDo(t *testing.T) {
	const gpu = "open GPU 0: CUDA_ERROR_"
	for name, test := range map[string]struct {
		files    fs.FS
		settings string // of the stand-in
		want     string
	}{
		"too old": {settings: "DRIVER=11040", want: "NVIDIA's driver is too old: it knows CUDA 11.4, and 12.0 is " +
			"needed: update it to 525 or newer"},
		"old, no GPU": {settings: "DRIVER=11080 INIT=100", want: "NVIDIA's driver is too old: it knows CUDA 11.8,"},
		"stub": {settings: "INIT=34", want: gpu +
			"STUB_LIBRARY: CUDA driver is a stub library: this libcuda is CUDA's stub,"},
		"unavailable": {settings: "INIT=46", want: gpu +
			"DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable: another process uses the GPU exclusively: " +
			"wait"},
		"no device": {settings: "INIT=100", want: gpu +
			"NO_DEVICE: no CUDA-capable device is detected: nvidia-smi -L lists"},
		"hidden": {settings: "INIT=100 CUDA_VISIBLE_DEVICES=7", want: `: CUDA_VISIBLE_DEVICES "7": excludes all GPUs: `},
		"unsliced": {settings: "INIT=100 SLICED=1",
			want: ": the GPU is divided into MIG slices, but none can be used: nvidia-smi mig -lgip"},
		"in Docker": {files: container, settings: "INIT=100",
			want: ": this container has no GPU: start it with docker run --gpus all, "},
		"in WSL": {files: wsl, settings: "INIT=100", want: ": WSL shows none: update NVIDIA's driver in Windows"},
		"not ready": {settings: "INIT=802", want: gpu +
			"SYSTEM_NOT_READY: system not yet initialized: the service that connects the GPUs is not running: start it with " +
			"systemctl start nvidia-fabricmanager"},
		"mismatch": {settings: "INIT=803", want: "combination: the driver was updated, but the old kernel module is " +
			"still loaded: restart the machine"},
		"an image's": {files: container, settings: "INIT=803", want: "combination: the container has a libcuda of its own"},
		"compat": {settings: "INIT=804", want: gpu +
			"COMPAT_NOT_SUPPORTED_ON_DEVICE: forward compatibility was attempted on non supported HW: this libcuda is from " +
			"CUDA's package cuda-compat"},
		"unknown": {settings: "INIT=999", want: gpu + "UNKNOWN: unknown error: the driver does not know why: dmesg"},
		"exclusive": {settings: "MODE=3", want: "another process uses the GPU exclusively: wait until it ends, or use " +
			"another GPU; nvidia-smi shows which; its compute mode is exclusive: "},
		"prohibited": {settings: "MODE=2", want: gpu +
			"UNKNOWN: unknown error: its compute mode is prohibited: an administrator allows computing with nvidia-smi -c " +
			"DEFAULT"},
		"full": {settings: "USED=1048576", want: gpu +
			"OUT_OF_MEMORY: out of memory: other processes have its memory: wait until they end, or take another GPU; " +
			"nvidia-smi lists them"},
		"full alone": {settings: "MODE=3 USED=1048576", want: "out of memory: other processes have its memory:"},
		"none such":  {settings: "GPUS=0", want: "no CUDA-capable device is detected"},
		"never seen": {settings: "INIT=12345", want: "open GPU 0: unknown error 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Use(t, "libcuda", "libnvidia-ml")
			machine(t, plain)
			if test.files != nil {
				root = test.files
			}
			cudatest.Set(t, test.settings)
			_, err := Open(0)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nhas not\n%s", err, test.want)
			}
			if busy := slices.Contains([]string{"unavailable", "exclusive", "full", "full alone"}, name); Busy(err) != busy {
				t.Errorf("busy: %v, %v", Busy(err), err)
			}
			if Fault(err) {
				t.Errorf("nothing was begun, and this counts as a fault on the way: %v", err)
			}
		})
	}
}

// TestOpen_OldDriverIsNamed checks that a driver that lacks functions is reported as too old, not as missing.
func TestOpen_OldDriverIsNamed(t *testing.T) {
	t.Setenv("RESTYLE_CUDA", cudatest.Library(t, "libcuda-old"))
	const want = "NVIDIA's driver is too old: it knows CUDA 11.0, and 12.0 is needed: update it to 525 or newer"
	if _, err := Open(0); err == nil || err.Error() != want || errors.Is(err, ErrNoDriver) {
		t.Error(err)
	}
	if _, err := Candidates(); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// TestOtherLibrariesCodes checks that another library's code is not taken for the driver's with the same number.
func TestOtherLibrariesCodes(t *testing.T) {
	for name, want := range map[string]bool{"CUDA_ERROR_OUT_OF_MEMORY": true, "NVRTC": false, "cuBLASLt": false} {
		if e := (&Error{Code: outOfMemory, Name: name}); e.OutOfMemory() != want {
			t.Errorf("%v is out of memory: %t", e, !want)
		}
	}
}

// TestNoDriver_SaysWhatToDo checks that the error says what to do if the driver is missing.
func TestNoDriver_SaysWhatToDo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no driver for " + runtime.GOOS)
	}
	half := fstest.MapFS{".dockerenv": {}, "dev/nvidiactl": {}}
	kernel := fstest.MapFS{"proc/driver/nvidia/version": {}}
	for name, test := range map[string]struct {
		files fs.FS
		want  string
	}{
		"plain": {plain, "if this machine has an NVIDIA GPU, install its driver"},
		"container": {container, "this container has no GPU: start it with docker run --gpus all, on a machine with " +
			"NVIDIA's package nvidia-container-toolkit"},
		"podman": {podman, "this container has no GPU: start"},
		"half": {half, "this container has the GPU but not the driver's libraries: start it with " +
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
		"WSL":    {wsl, "WSL uses the driver of Windows: install NVIDIA's there"},
		"kernel": {kernel, "its kernel module is installed but its library libcuda is not"},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Use(t)
			machine(t, test.files)
			_, err := Open(0)
			want := "no NVIDIA driver: " + test.want
			if !errors.Is(err, ErrNoDriver) || !strings.HasPrefix(err.Error(), want) ||
				!strings.HasSuffix(err.Error(), ": tried /there is no libcuda (not there)") {
				t.Errorf("%v\nis not\n%s", err, want)
			}
		})
	}
	t.Run("Kubernetes", func(t *testing.T) {
		machine(t, plain)
		t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
		if got := withoutDriver(root); !strings.HasPrefix(got, "this container has no GPU") {
			t.Error(got)
		}
	})
	if os.Getenv("CUDA_DEVICE_ORDER") == "" {
		t.Error("GPUs are numbered by speed")
	}
}

// TestFaults_AreRecognized checks that a GPU's failures during a run are recognized as such, with what to do, and that
// other errors are not.
func TestFaults_AreRecognized(t *testing.T) {
	for code, want := range map[int]string{
		700: "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered: a kernel accessed memory outside its " +
			"allocations: if", 702: "CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated: the system stopped a " +
			"kernel after seconds", 716: "CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address: a kernel failed: if",
		214: "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered: the GPU's memory is damaged: restart",
		999: "CUDA_ERROR_UNKNOWN: unknown error: the driver does not know why: ",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Setenv("STANDIN_FAULT", fmt.Sprint(code))
			g := openStandIn(t, 0)
			g.Launch(kernelOf(t, g, "fault"), Dim3{X: 1}, Dim3{X: 1}, 0)
			err := g.Sync()
			if err == nil || !strings.HasPrefix(err.Error(), "wait, at or before kernel fault: "+want) {
				t.Errorf("%v\nhas not\n%s", err, want)
			}
			if !Fault(err) || !Fault(fmt.Errorf("step 3: %w", err)) || Busy(err) {
				t.Errorf("no fault: %v", err)
			}
		})
	}
	g := openStandIn(t, 0)
	_, err := g.Alloc(1 << 40)
	for _, err := range []error{err, nil, ErrNoDriver, &Error{Code: 1}} {
		if Fault(err) || Busy(err) {
			t.Errorf("%v is no fault", err)
		}
	}
}

// TestLoad_NamesCompilersPackage checks that the error names the compiler's package if its code is not for the GPU or
// the driver.
func TestLoad_NamesCompilersPackage(t *testing.T) {
	for settings, want := range map[string]string{
		"LOAD=209": "NVRTC is older than the GPU: install a newer one with pip install nvidia-cuda-nvrtc",
		"LOAD=222 DRIVER=12040": "NVRTC is newer than the driver: update the driver, or install an older NVRTC with pip " +
			"install nvidia-cuda-nvrtc-cu12",
	} {
		t.Run(settings, func(t *testing.T) {
			cudatest.Set(t, settings)
			g := openStandIn(t, 0)
			if _, err := g.Load([]byte("kernels")); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v\nhas not\n%s", err, want)
			}
		})
	}
}

// TestDocs_ExplainEachResult checks that docs/gpu.md explains each result with a remedy, and each library.
func TestDocs_ExplainEachResult(t *testing.T) {
	text, err := os.ReadFile("../../docs/gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := slices.Concat(slices.Collect(maps.Keys(cures)), []int{outOfMemory, noDevice, driverMismatch})
	for _, code := range codes {
		if !strings.Contains(string(text), fmt.Sprintf("(%d)", code)) {
			t.Errorf("%d is not explained", code)
		}
	}
	for _, l := range []library{libcuda, libnvml, libnvrtc, libcublasLt} {
		for _, want := range []string{strings.Replace(l.file, "%d", "13", 1), l.variable, l.wheel, l.pip} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s is not explained", want)
			}
		}
	}
}
