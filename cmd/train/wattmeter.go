package main

import (
	"strings"
	"time"

	"restyle/trainer"
)

// A wattmeter measures the mean power of a run's device in its steps, without evaluations and saving.
type wattmeter struct {
	read            func() (joules float64, known bool) // see kernels.Device.Energy
	since           time.Time                           // the latest reading; the zero time outside of steps
	last            float64
	known           bool
	joules, seconds float64 // between readings
}

// maxInterval is the time after which a counter is read within steps. The smallest range of a processor's counters
// lasts longer.
const maxInterval = time.Minute

// phase starts or stops measuring if the run starts or stops taking steps.
func (w *wattmeter) phase(p trainer.Phase, now time.Time) {
	if steps := strings.HasPrefix(string(p), "step "); steps == w.since.IsZero() {
		w.look(now)
		if !steps {
			w.since = time.Time{}
		}
	}
}

// step is called after each step.
func (w *wattmeter) step(now time.Time) {
	if now.Sub(w.since) >= maxInterval {
		w.look(now)
	}
}

// look reads the counter. An interval in which it started again at 0 does not count.
func (w *wattmeter) look(now time.Time) {
	joules, known := w.read()
	if known && w.known && !w.since.IsZero() && joules >= w.last {
		w.joules += joules - w.last
		w.seconds += now.Sub(w.since).Seconds()
	}
	w.last, w.known, w.since = joules, known, now
}

// watts returns the mean power, or NaN if it is unknown.
func (w *wattmeter) watts() float64 { return w.joules / w.seconds }
