package kernels

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"restyle/kernels/cpu"
	"restyle/kernels/cuda"
)

// Open opens a device: "cpu"; "cuda", which is "cuda:0", "cuda:1" and so on; "auto", which is the usable GPU with the
// most free memory, or the CPU if there is none; or "emulated", a GPU emulated on the CPU, for finding errors in
// kernels. Notes tells what auto chose. All CPU devices of a process share its threads and its instruction set: the
// last one opened decides.
func Open(name string, o Options) (*Device, error) {
	d := &Device{name: name, opts: o, counts: map[string]int{}, arenas: map[*Arena]bool{}}
	kind, ordinal, numbered := strings.Cut(name, ":")
	var err error
	switch {
	case name == "cpu":
		err = d.openCPU()
	case name == "auto":
		err = d.openAuto()
	case name == "emulated":
		err = d.openEmulated()
	case kind == "cuda":
		n := 0
		if numbered {
			if n, err = strconv.Atoi(ordinal); err != nil || n < 0 {
				return nil, fmt.Errorf("device %q: must end with the number of a GPU, as in cuda:0", name)
			}
		}
		err = d.openGPU(n)
	default:
		return nil, fmt.Errorf("device %q: unknown device: use cpu, cuda, cuda:N, emulated or auto", name)
	}
	if err != nil && d.gpu != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return d, nil
}

// openAuto opens the usable GPU with the most free memory, or else the CPU.
func (d *Device) openAuto() error {
	list, why := cuda.Candidates()
	for _, c := range list {
		err := d.openGPU(c.Ordinal)
		if err == nil {
			d.notes = append([]string{fmt.Sprintf("device auto: %s, %s, %s free", d.name, c.Name, Bytes(c.Free))}, d.notes...)
			return nil
		}
		if why == nil {
			why = err
		}
	}
	if errors.Is(why, cuda.ErrNoDriver) {
		why = cuda.ErrNoDriver // most machines have no GPU, and where its driver was looked for is of no interest there
	}
	d.name, d.notes = "cpu", []string{fmt.Sprintf("device auto: using the CPU: %v", why)}
	return d.openCPU()
}

// openGPU opens a GPU, and notes what makes it slower than it could be.
func (d *Device) openGPU(ordinal int) error {
	device, err := cuda.Open(ordinal)
	if err != nil {
		return err
	}
	compiler, err := cuda.OpenCompiler(device.Properties)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	if err := d.useGPU(fmt.Sprintf("cuda:%d", ordinal), device, compiler); err != nil {
		return err
	}
	if older := compiler.Older(device.Properties); older != "" {
		d.notes = append(d.notes, older)
	}
	if d.opts.OwnProducts {
		return nil
	}
	if missing := d.openBLAS(cuda.OpenBLAS); missing != nil {
		d.notes = append(d.notes, fmt.Sprintf("matrix products are restyle's own, which are slower: %v", missing))
	}
	return nil
}

func (d *Device) openEmulated() error {
	device, compiler, err := cuda.OpenEmulated(cuda.DefaultCache())
	if err != nil {
		return err
	}
	if err := d.useGPU(d.name, device, compiler); err != nil || d.opts.OwnProducts {
		return err
	}
	return d.openBLAS(cuda.OpenEmulatedBLAS)
}

// useGPU makes d the opened GPU, or closes it if it cannot be used.
func (d *Device) useGPU(name string, device *cuda.GPU, compiler *cuda.Compiler) error {
	arch, err := compiler.Arch(device.Major, device.Minor)
	if !device.HasBF16() && !d.opts.NoBF16 {
		err = fmt.Errorf("%s has compute capability %d.%d, and bfloat16 needs 8.0 (Ampere) or newer: "+
			"use --dtype fp16 or fp32, or the CPU",
			device.Name, device.Major, device.Minor)
	}
	if err != nil {
		return errors.Join(err, device.Close())
	}
	d.name = name
	d.gpu = &gpu{GPU: device, compiler: compiler, arch: arch, cache: cuda.DefaultCache(),
		modules: map[build]*cuda.Module{}}
	d.gpu.ranges, _ = cuda.OpenRanges() // usually there is no profiler
	return nil
}

func (d *Device) openCPU() error {
	threads := d.opts.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads < 1 || threads > 1024 {
		return fmt.Errorf("threads %d: must be from 1 to 1024, or 0 for all", threads)
	}
	want := d.opts.Level
	if want == "" {
		want = os.Getenv("RESTYLE_CPU")
	}
	level, err := cpu.ParseLevel(want)
	if err != nil && d.opts.Level == "" {
		err = fmt.Errorf("RESTYLE_CPU: %w", err)
	}
	if err != nil {
		return err
	}
	cpu.SetLevel(level)
	return cpu.SetThreads(threads)
}

// Notes returns lines for the user about how the device was opened: what auto chose and why, and what makes a GPU
// slower than it could be, with the remedy.
func (d *Device) Notes() []string { return d.notes }
