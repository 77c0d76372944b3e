package kernels

import (
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/kernels/cuda/cudatest"
)

// TestOpen_AutoChoosesGPU checks that auto is the usable GPU with the most free memory, or else the CPU, and that a
// note says why.
func TestOpen_AutoChoosesGPU(t *testing.T) {
	all := []string{"libcuda", "libnvrtc", "libnvidia-ml"}
	for name, test := range map[string]struct {
		libraries      []string
		settings       string // of the stand-in
		options        Options
		device, choice string
	}{
		"most free": {libraries: all, settings: "GPUS=3 USED=900000,524288,700000", device: "cuda:1",
			choice: "cuda:1, Stand-in 1, 512.0 KiB free"},
		"first": {libraries: all, device: "cuda:0", choice: "cuda:0, Stand-in 0, 1.0 MiB free"},
		"without NVML": {libraries: all[:2], settings: "USED=5000", device: "cuda:1",
			choice: "cuda:1, Stand-in 1, 1.0 MiB free"},
		"exclusive": {libraries: all, settings: "MODE=3,0", device: "cuda:1", choice: "cuda:1, Stand-in 1, 1.0 MiB free"},
		"all exclusive": {libraries: all, settings: "MODE=3,3", device: "cpu",
			choice: "using the CPU: open GPU 0: CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable"},
		"no driver": {device: "cpu", choice: "using the CPU: no NVIDIA driver"},
		"no compiler": {libraries: all[:1], settings: "DRIVER=12040", device: "cpu",
			choice: "using the CPU: NVRTC, CUDA's run-time compiler, is missing: install it with pip install " +
				"nvidia-cuda-nvrtc-cu12"},
		"stub": {libraries: all, settings: "INIT=34", device: "cpu",
			choice: "using the CPU: open GPU 0: CUDA_ERROR_STUB_LIBRARY"},
		"before Ampere": {libraries: all, settings: "GPUS=1 CAPABILITY=75", device: "cpu",
			choice: "using the CPU: Stand-in 0 has compute capability 7.5, and bfloat16 needs 8.0"},
		"one is newer": {libraries: all, settings: "CAPABILITY=75,80", device: "cuda:1",
			choice: "cuda:1, Stand-in 1, 1.0 MiB free"},
		"F32 on Turing": {libraries: all, settings: "GPUS=1 CAPABILITY=75", options: Options{NoBF16: true}, device: "cuda:0",
			choice: "cuda:0, Stand-in 0, 1.0 MiB free"},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Use(t, test.libraries...)
			cudatest.Set(t, test.settings)
			d, err := Open("auto", test.options)
			expect.OK(t, err)
			defer d.Close()
			if notes := d.Notes(); d.Name() != test.device || len(notes) == 0 ||
				!strings.HasPrefix(notes[0], "device auto: "+test.choice) {
				t.Errorf("%s, %q\nnot %s, %s", d.Name(), notes, test.device, test.choice)
			}
			if name == "no driver" && d.Notes()[0] != "device auto: "+test.choice {
				t.Errorf("where a driver was looked for is said: %q", d.Notes()[0])
			}
			for _, note := range d.Notes() {
				if strings.Contains(note, "\n") {
					t.Errorf("more than a line: %q", note)
				}
			}
		})
	}
}

// TestOpenByName checks that a named GPU is opened, or that an error says what to do; the CPU must never replace it.
func TestOpenByName(t *testing.T) {
	all := []string{"libcuda", "libnvrtc"}
	for name, test := range map[string]struct {
		libraries              []string
		device, settings, want string
	}{
		"none such": {all, "cuda:2", "", `device "cuda:2": GPU 2: this machine has 2, numbered from 0`},
		"no driver": {nil, "cuda", "", `device "cuda": no NVIDIA driver: `},
		"no compiler": {all[:1], "cuda:1", "DRIVER=12080",
			`device "cuda:1": NVRTC, CUDA's run-time compiler, is missing: install it with ` +
				"pip install nvidia-cuda-nvrtc-cu12, "},
		"before Ampere": {all, "cuda:0", "CAPABILITY=75",
			`device "cuda:0": Stand-in 0 has compute capability 7.5, and bfloat16 needs 8.0 ` +
				"(Ampere) or newer: use --dtype fp16 or fp32, or the CPU"},
		"too old":      {all, "cuda:0", "CAPABILITY=70", "compute capability 7.0"},
		"exclusive":    {all, "cuda", "MODE=3", `device "cuda": open GPU 0: CUDA_ERROR_DEVICE_UNAVAILABLE`},
		"not a number": {all, "cuda:x", "", `device "cuda:x": must end with the number of a GPU`},
	} {
		t.Run(name, func(t *testing.T) {
			cudatest.Use(t, test.libraries...)
			cudatest.Set(t, test.settings)
			if d, err := Open(test.device, Options{}); err == nil || !strings.Contains(err.Error(), test.want) || d != nil {
				t.Errorf("%v\nhas not\n%s", err, test.want)
			}
		})
	}
	cudatest.Use(t, all...)
	d, err := Open("cuda", Options{})
	expect.OK(t, err)
	const notes = "matrix products are restyle's own, which are slower: cuBLASLt is missing: install it with pip " +
		"install nvidia-cublas, "
	if d.Name() != "cuda:0" || len(d.Notes()) != 1 || !strings.HasPrefix(d.Notes()[0], notes) {
		t.Errorf("%s, %q", d.Name(), d.Notes())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	cudatest.Set(t, "CAPABILITY=90,120 DRIVER=12080")
	if d, err = Open("cuda:1", Options{OwnProducts: true}); err != nil {
		t.Fatal(err)
	}
	if len(d.Notes()) != 1 || !strings.HasSuffix(d.Notes()[0],
		"install a newer one with pip install nvidia-cuda-nvrtc-cu12 --upgrade") {
		t.Errorf("%q", d.Notes())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
