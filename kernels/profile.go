package kernels

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// A Timing is the time that a device spent in one kernel.
type Timing struct {
	Kernel string // its name, and for products their sizes
	Count  int
	Time   time.Duration
	FLOPs  float64 // floating-point operations of all runs; 0 if memory limits the kernel
	Bytes  float64 // minimum bytes that all runs read and wrote, if FLOPs is 0; NaN if only the device knows
}

// speed returns TFLOP/s or GB/s, or "" if unknown.
func (t Timing) speed() string {
	switch seconds := t.Time.Seconds(); {
	case seconds == 0:
	case t.FLOPs > 0:
		return fmt.Sprintf("%.4g TFLOP/s", t.FLOPs/seconds/1e12)
	case t.Bytes > 0:
		return fmt.Sprintf("%.4g GB/s", t.Bytes/seconds/1e9)
	}
	return ""
}

// work is what the profile records about a launch: the sizes after its name, its FLOPs, or else its bytes.
type work struct {
	sizes        string
	flops, bytes float64
}

// sized adds sizes to the next launch's name in the profile, to tell it from other launches of its kernel.
func (d *Device) sized(sizes ...int) {
	if !d.opts.Sync {
		return
	}
	before := " "
	for _, n := range sizes {
		d.next.sizes += before + strconv.Itoa(n)
		before = "x"
	}
}

// counted adds a run of a kernel to the profile.
func (d *Device) counted(name string, w work) *Timing {
	if d.profile == nil {
		d.profile = map[string]*Timing{}
	}
	t := d.profile[name]
	if t == nil {
		t = &Timing{Kernel: name}
		d.profile[name] = t
	}
	t.Count++
	t.FLOPs += w.flops
	if w.flops == 0 {
		t.Bytes += w.bytes
	}
	return t
}

// timed queues a run, waits for it and adds its time.
func (d *Device) timed(t *Timing, queue func()) {
	took, err := d.gpu.Time(queue)
	d.fail(err)
	t.Time += took
}

// stopTiming ends the time of the operation that the CPU computes.
func (d *Device) stopTiming() {
	if d.running != nil {
		d.running.Time += time.Since(d.began)
		d.running = nil
	}
}

// Profile returns the time of each kernel since the last call, the longest first. It is empty without Options.Sync. On
// the CPU a kernel's time lasts until the next one starts, or until Sync, and only products have speeds.
func (d *Device) Profile() (list []Timing) {
	d.stopTiming()
	for t := range maps.Values(d.profile) {
		list = append(list, *t)
	}
	d.profile = nil
	slices.SortFunc(list, func(a, b Timing) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time),
			cmp.Compare(a.Kernel, b.Kernel))
	})
	return list
}

// PrintProfile writes a table of the times of kernels, measured over a number of steps.
func PrintProfile(w io.Writer, list []Timing, steps int) error {
	var total time.Duration
	for _, t := range list {
		total += t.Time
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "kernel\ttimes a step\tms a step\tshare\tspeed\t")
	for _, t := range list {
		fmt.Fprintf(out, "%s\t%.4g\t%.3f\t%.1f%%\t%s\t\n", t.Kernel, float64(t.Count)/float64(steps),
			t.Time.Seconds()*1e3/float64(steps),
			100*float64(t.Time)/float64(total), t.speed())
	}
	fmt.Fprintf(out, "together\t\t%.3f\t\t\t\n", total.Seconds()*1e3/float64(steps))
	return out.Flush()
}
