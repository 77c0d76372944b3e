package trainer

import (
	"golang.org/x/sys/unix"

	"restyle/kernels"
	"restyle/kernels/cpu"
)

// buffers is what a process takes for reading, asking and saving a model, besides its arenas, once data and tokenizer
// are there: the difference of getrusage's peaks, as measured. It does not grow with the model.
const buffers = 20 << 20

// process returns the estimate of what a run takes besides its arenas: on the CPU the program itself, on a GPU the
// driver.
func process(d *kernels.Device) Part {
	if !d.IsCPU() {
		return Part{"the driver and its code", d.Overhead()}
	}
	return Part{"the program, data and buffers", int(PeakMemory()) + buffers + cpu.Threads()*cpu.GemmWorkspace()}
}

// PeakMemory returns the most memory that this process had at a time, in bytes, or 0 if the system does not tell.
func PeakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) * maxRSSUnit
}
