package main

import (
	"fmt"
	"strings"
	"time"

	"restyle/kernels"
)

// A gauge counts how often, and why, the clocks of a run's device are throttled.
type gauge struct {
	read    func() (kernels.Meters, bool)
	next    time.Time // when to look again
	looks   int
	because map[string]int // number of looks that found the clocks throttled, by reason
}

func newGauge(read func() (kernels.Meters, bool)) *gauge {
	return &gauge{read: read, because: map[string]int{}}
}

// look records why the clocks are throttled, at most once a second: reading the meters takes some of a step's time.
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

// held returns one line on what throttled the clocks during the run, or "" if nothing did.
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
