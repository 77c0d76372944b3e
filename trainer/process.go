package trainer

import (
	"golang.org/x/sys/unix"

	"restyle/kernels"
	"restyle/kernels/cpu"
)

// buffers is the memory that a process needs for reading, sampling and saving a model, besides its arenas, once data
// and tokenizer are loaded: the measured difference of getrusage's peaks. It does not grow with the model.
const buffers = 20 << 20

// process returns an estimate of the memory that a run takes besides its arenas: on the CPU the program's own, on a
// GPU the driver's.
func process(d *kernels.Device, ranks int) Part {
	switch {
	case !d.IsCPU() && ranks > 1:
		return Part{"the driver, NCCL and their code", d.Overhead(ranks)}
	case !d.IsCPU():
		return Part{"the driver and its code", d.Overhead(ranks)}
	}
	return Part{"the program, data and buffers", int(PeakMemory()) + buffers + cpu.Threads()*cpu.GemmWorkspace()}
}

// PeakMemory returns the peak resident memory of this process in bytes, or 0 if the system does not report it.
func PeakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) * maxRSSUnit
}
