package main

import (
	"testing"
	"time"

	"restyle/kernels"
)

// TestGauge_ReasonsOncePerSecond checks the reasons for which the clocks were held back, counted at most once per
// second.
func TestGauge_ReasonsOncePerSecond(t *testing.T) {
	now := time.Unix(1000, 0)
	m, known := kernels.Meters{}, true
	g := newGauge(func() (kernels.Meters, bool) { return m, known })
	look := func(after time.Duration, held int) {
		m.Held, now = kernels.Meters{}.Held, now.Add(after)
		for range held {
			m.Held++
		}
		g.look(now)
	}
	look(0, 0)
	if g.held() != "" {
		t.Error(g.held())
	}
	look(time.Second, 4)
	look(time.Second-1, 0x20) // less than a second later: not counted
	look(1, 4)
	look(2*time.Second, 0x20)
	look(time.Second, 0x24)
	look(time.Second, 8)
	look(time.Second, 1) // idle
	const want = "the GPU's clocks were held back: by power at 2, by heat at 1, by power and heat at 1, by the hardware " +
		"at 1 of 7 looks; " +
		"nvidia-smi -q -d POWER,TEMPERATURE has the limits"
	if g.held() != want {
		t.Errorf("%s\nnot\n%s", g.held(), want)
	}
	known = false
	look(time.Second, 4)
	if g.looks != 7 {
		t.Errorf("%d looks, one of them without meters", g.looks)
	}
}
