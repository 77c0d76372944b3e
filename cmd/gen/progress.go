package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/teacher"
)

// A progress shows the progress of a run: one line that is redrawn on a terminal, a line every few seconds elsewhere.
type progress struct {
	g     *gen
	total int // rows that the run will make, or that the source has; -1 if unknown
	quit  chan struct{}
	ended chan struct{}

	dead bool // warnIfDead has printed that no server answers

	mu    sync.Mutex
	sum   teacher.Summary
	rates []moment // of the last window
}

// A moment is how far the run was at a time.
type moment struct {
	at     time.Time
	done   int // rows
	tokens int
}

const (
	redraw = 200 * time.Millisecond
	window = 30 * time.Second // over which speed is measured
)

var plainLine = 5 * time.Second // tests do not wait that long

// startProgress starts to show the progress of r.
func (g *gen) startProgress(r *teacher.Run) *progress {
	p := &progress{g: g, quit: make(chan struct{}), ended: make(chan struct{})}
	p.sum.Target = r.Rows
	r.Progress = func(s teacher.Summary) {
		p.mu.Lock()
		p.sum = s
		p.mu.Unlock()
	}
	every := plainLine
	if g.status.On() {
		every = redraw
	}
	if p.total = r.Rows; p.total == 0 {
		p.total = g.sourceRows
	}
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.draw()
			case <-p.quit:
				return
			}
		}
	}()
	return p
}

func (p *progress) draw() {
	p.mu.Lock()
	s := p.sum
	p.mu.Unlock()
	now := time.Now()
	p.warnIfDead(now)
	line := p.line(s, now)
	if !p.g.status.On() {
		rows := cli.Count(s.Accepted, "row")
		if s.Target > 0 {
			rows = fmt.Sprintf("%d/%s", s.Accepted, cli.Count(s.Target, "row"))
		}
		fmt.Fprintf(p.g.stderr, "%s, %s\n", rows, line)
		return
	}
	p.g.status.DrawBar(s.Accepted, p.total, line)
}

// warnIfDead prints once that no server answers, since the progress does not change while the run waits.
func (p *progress) warnIfDead(now time.Time) {
	if p.g.remote == nil || p.g.remote.Pool == nil {
		return
	}
	st := p.g.remote.Pool.Stats()
	dead := !st.GiveUpAt.IsZero()
	if since := st.GiveUpAt.Add(-p.g.deadTimeout); dead && !p.dead && (st.Alive == 0 || now.Sub(since) >= plainLine) {
		p.dead = true
		p.g.say("no server answers; waiting until %s (--dead-timeout %v), then stopping; all answers so far are kept",
			clock(st.GiveUpAt), p.g.deadTimeout)
		for _, e := range st.Endpoints {
			p.g.say("  %s is %s until %s: %s", e.URL, e.State, clock(e.Until), e.Reason)
		}
	}
	p.dead = p.dead && dead
}

func clock(t time.Time) string { return t.Format(time.TimeOnly) }

// line returns what is shown next to the number of rows.
func (p *progress) line(s teacher.Summary, now time.Time) string {
	done, all := s.Accepted, s.Target
	if all == 0 { // as many rows as the source gives
		done, all = s.Source, p.g.sourceRows
	}
	p.rates = append(p.rates, moment{now, done, s.Out})
	for len(p.rates) > 2 && now.Sub(p.rates[0].at) > window {
		p.rates = p.rates[1:]
	}
	first := p.rates[0]
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	decided := s.Accepted
	for _, n := range s.Refused {
		decided += n
	}
	if decided > 0 {
		add("%.0f%% accepted", 100*float64(s.Accepted)/float64(decided))
	}
	if dt := now.Sub(first.at).Seconds(); dt > 0 {
		if s.Out > first.tokens {
			add("%.0f tokens/s", float64(s.Out-first.tokens)/dt)
		}
		if speed := float64(done-first.done) / dt; speed > 0 && all > 0 {
			add("ETA %s", time.Duration(float64(all-done)/speed*float64(time.Second)).Round(time.Second))
		}
	}
	if cost := p.g.cost(s); cost != nil {
		add("$%.2f", *cost)
	}
	if p.g.remote != nil && p.g.remote.Pool != nil {
		st := p.g.remote.Pool.Stats()
		add("%d in flight of %d", st.InFlight, st.Limit)
		add("%d/%s", st.Alive, cli.Count(st.Total, "server"))
		retries := 0
		for _, n := range st.Retries {
			retries += n
		}
		if retries > 0 {
			add("retries %d", retries)
		}
	}
	if s.Waiting > 0 {
		add("%s without an answer", cli.Count(s.Waiting, "row"))
	}
	if reasons := s.Reasons(); reasons != "" {
		add("refused: %s", reasons)
	}
	return strings.Join(parts, ", ")
}

// showDownload shows the progress of a download, redrawn on a terminal, every few seconds elsewhere.
func (g *gen) showDownload(d hub.Progress) {
	every := plainLine
	if g.status.On() {
		every = redraw
	}
	if now := time.Now(); d.Done == d.Total || now.Sub(g.drawn) >= every {
		g.drawn = now
		line := fmt.Sprintf("downloading %s: %.1f of %.1f MB", d.Name, float64(d.Done)/1e6, float64(d.Total)/1e6)
		if g.status.On() && d.Done < d.Total {
			g.status.Draw(line)
		} else {
			g.say("%s", line)
		}
	}
}

// stop ends the display.
func (p *progress) stop() {
	close(p.quit)
	<-p.ended
	p.g.status.Clear()
}
