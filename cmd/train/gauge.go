package main

import (
	"fmt"
	"strings"
	"time"

	"restyle/kernels"
)

// A gauge counts what throttles the clocks of a run's device.
type gauge struct {
	read    func() (kernels.Meters, bool)
	next    time.Time // of the next look
	looks   int
	because map[string]int // number of looks that found the clocks throttled, by reason
}

func newGauge(read func() (kernels.Meters, bool)) *gauge {
	return &gauge{read: read, because: map[string]int{}}
}

// look records what throttles the clocks, at most once a second: reading the meters takes some of a step's time.
func (g *gauge) look(now time.Time) {
	if now.Before(g.next) {
		return
	}
	g.next = now.Add(time.Second)
	m, known := g.read()
	if !known {
		return
	}
	g.looks++
	if why := m.Held.String(); why != "" {
		g.because[why]++
	}
}

// held returns what throttled the clocks during the run, in a line; "" if nothing did.
func (g *gauge) held() string {
	var found []string
	for _, why := range []string{"power", "heat", "power and heat", "the hardware"} {
		if n := g.because[why]; n > 0 {
			found = append(found, fmt.Sprintf("by %s at %d", why, n))
		}
	}
	if found == nil {
		return ""
	}
	return fmt.Sprintf("the GPU's clocks were held back: %s of %d looks; nvidia-smi -q -d POWER,TEMPERATURE "+
		"has the limits",
		strings.Join(found, ", "), g.looks)
}
