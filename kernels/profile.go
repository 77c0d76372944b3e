package kernels

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// A Timing is what one kernel of a device took.
type Timing struct {
	Kernel string // its name, and for products their sizes
	Count  int
	Time   time.Duration
	FLOPs  float64 // floating-point operations of all runs; 0 where memory is what counts
}

// timed queues a kernel, waits for it and notes how long it took.
func (d *Device) timed(queue func(), name string, flops float64) {
	took, err := d.gpu.Time(queue)
	d.fail(err)
	if d.profile == nil {
		d.profile = map[string]*Timing{}
	}
	t := d.profile[name]
	if t == nil {
		t = &Timing{Kernel: name}
		d.profile[name] = t
	}
	t.Count++
	t.Time += took
	t.FLOPs += flops
}

// Profile is what each kernel took since the last call, the one that took most first. There is one on a GPU with Options.Sync.
func (d *Device) Profile() (list []Timing) {
	for t := range maps.Values(d.profile) {
		list = append(list, *t)
	}
	d.profile = nil
	slices.SortFunc(list, func(a, b Timing) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Kernel, b.Kernel)) })
	return list
}

// PrintProfile writes a table of kernels' times, of which steps were taken.
func PrintProfile(w io.Writer, list []Timing, steps int) error {
	var total time.Duration
	for _, t := range list {
		total += t.Time
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "kernel\ttimes a step\tms a step\tshare\tTFLOP/s\t")
	for _, t := range list {
		speed := ""
		if t.FLOPs > 0 {
			speed = fmt.Sprintf("%.0f", t.FLOPs/t.Time.Seconds()/1e12)
		}
		fmt.Fprintf(out, "%s\t%.4g\t%.3f\t%.1f %%\t%s\t\n", t.Kernel, float64(t.Count)/float64(steps), t.Time.Seconds()*1e3/float64(steps),
			100*float64(t.Time)/float64(total), speed)
	}
	fmt.Fprintf(out, "together\t\t%.3f\t\t\t\n", total.Seconds()*1e3/float64(steps))
	return out.Flush()
}
