package ranks

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Group is this process among the others. Only one goroutine may call its methods that exchange something, and every
// rank must call the same ones in the same order. After an error, only Close is useful.
type Group struct {
	place Place
	beat  time.Duration // how often ranks say that they are alive
	peers []*peer       // rank 0 has one for each other rank, in order; the others have rank 0

	seq   atomic.Int64              // exchanges started
	at    atomic.Pointer[string]    // the name of the last one
	since atomic.Pointer[time.Time] // the last call of Watch
	limit atomic.Int64              // its limit
	queue atomic.Bool               // of WatchQueue
	ticks atomic.Pointer[func() int64]
	gap   atomic.Int64  // the longest time that a rank has not moved while there was a limit
	lost  chan struct{} // closed when a rank is lost
	done  chan struct{} // closed when rank 0 says that it ends
	once  sync.Once
	err   *Lost
	over  atomic.Bool // this rank or rank 0 has ended in order
}

// A peer is another rank: its control connection, for what ranks know of each other, and its connection for data.
type peer struct {
	rank          int
	control, data net.Conn
	lines         *bufio.Reader // of control
	claims        map[string]string

	sending sync.Mutex
	at      progress // as it said last
	moved   time.Time
}

// A progress grows while a rank moves: it has the exchanges that the rank has started, and its ticks. All ranks have
// the same progress at the same place in their work. Ticks are compared first: a GPU's ticks count what it has done,
// and its exchanges only what it is to do. The less there is to do in a pass, the further the exchanges run ahead of
// the ticks.
type progress struct{ Seq, Ticks int64 }

func (p progress) compare(q progress) int {
	return cmp.Or(cmp.Compare(p.Ticks, q.Ticks), cmp.Compare(p.Seq, q.Seq))
}

// Lost is the error of a run that has lost a rank. A new run may continue from what was saved.
type Lost struct {
	Rank int
	Or   []int `json:",omitempty"` // others, if it is not known which of them it is
	Why  string
	At   string // the last exchange that the rank that noticed it had started; "" if there is nothing to name
}

func (e *Lost) Error() string {
	text := fmt.Sprintf("rank %d%s %s", e.Rank, e.others(), e.Why)
	if e.At != "" {
		text += "; the last exchange begun was " + e.At
	}
	return text
}

// others names the ranks in Or, unless they are many.
func (e *Lost) others() (text string) {
	const most = 3
	last := len(e.Or) - 1
	switch {
	case last < 0:
		return ""
	case last >= most:
		return fmt.Sprintf(" or one of %d others", last+1)
	}
	for _, r := range e.Or[:last] {
		text += fmt.Sprintf(", %d", r)
	}
	return fmt.Sprintf("%s or %d", text, e.Or[last])
}

// ErrEnded is the error of an exchange with rank 0 after rank 0 has ended in order.
var ErrEnded = errors.New("rank 0 has ended")

// Refused is the error of ranks that are not about to do the same thing. Every rank gets it.
type Refused struct{ Why string }

func (e *Refused) Error() string { return "the ranks would not do the same: " + e.Why }

// Time limits. A rank that ends is noticed at once. One that hangs is noticed by its silence, or by Watch.
var (
	beat       = time.Second
	silence    = 30 * time.Second
	joinWithin = 10 * time.Minute
)

// silences is the number of parts into which a rank divides the time for which it hears nothing. While the rank itself
// is stopped, as by Ctrl-Z, only one of them passes, however long that takes: the others may not have been silent.
const silences = 10

// A message is a line on a control connection.
type message struct {
	Magic  string            `json:",omitempty"` // of the first message
	Rank   int               `json:",omitempty"`
	Size   int               `json:",omitempty"`
	Data   bool              `json:",omitempty"` // the connection is for data
	Claims map[string]string `json:",omitempty"`

	Refused  string `json:",omitempty"`
	Failed   string `json:",omitempty"` // the sender ends with this error
	Lost     *Lost  `json:",omitempty"`
	Bye      bool   `json:",omitempty"` // the sender ends
	progress        // of the sender
}

const magic, maxLine = "restyle ranks 1", 1 << 16

func (p *peer) close() {
	for _, c := range []net.Conn{p.control, p.data} {
		if c != nil {
			c.Close()
		}
	}
}

// send sends a message, if the connection still takes it: if it does not, reading finds out why.
func (p *peer) send(m message) {
	line, _ := json.Marshal(m)
	p.sending.Lock()
	defer p.sending.Unlock()
	_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = p.control.Write(append(line, '\n'))
}

func (p *peer) read() (m message, err error) {
	line, err := p.lines.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	return m, err
}

// hear reads what a peer says until it ends or is lost.
func (g *Group) hear(p *peer) {
	for quiet := 1; ; quiet++ {
		_ = p.control.SetReadDeadline(time.Now().Add(silence / silences))
		switch _, err := p.lines.Peek(1); {
		case err == nil:
			_ = p.control.SetReadDeadline(time.Now().Add(silence)) // for the rest of the line
		case errors.Is(err, os.ErrDeadlineExceeded) && quiet < silences && !g.over.Load():
			continue
		}
		m, err := p.read()
		switch {
		case g.over.Load():
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			g.lose(&Lost{Rank: p.rank, Why: fmt.Sprintf("has been silent for %v", silence), At: g.last()})
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			g.lose(&Lost{Rank: p.rank, Why: "has ended", At: g.last()})
		case err != nil:
			g.lose(&Lost{Rank: p.rank, Why: fmt.Sprintf("cannot be heard: %v", err), At: g.last()})
		case m.Lost != nil:
			g.lose(m.Lost)
		case m.Failed != "":
			g.lose(&Lost{Rank: p.rank, Why: "failed: " + m.Failed})
		case m.Bye && p.rank == 0:
			g.over.Store(true)
			close(g.done)
			return
		case m.Bye:
			return // if this rank still needs it, the connection for data finds out
		}
		if err != nil || m.Lost != nil || m.Failed != "" {
			return
		}
		p.sending.Lock()
		if m.progress != p.at {
			p.at, p.moved = m.progress, g.move(p.moved)
		}
		p.sending.Unlock()
		quiet = 0
	}
}

// move records that a rank moves now, after it last moved at last.
func (g *Group) move(last time.Time) (now time.Time) {
	now = time.Now()
	since := g.since.Load()
	if since == nil || !g.Watched() {
		return now
	}
	if since.After(last) {
		last = *since
	}
	if gap := int64(now.Sub(last)); gap > g.gap.Load() {
		g.gap.Store(gap)
	}
	return now
}

// beats tells the peers that this rank is alive, and on rank 0 finds the ranks that no longer move.
func (g *Group) beats() {
	self, moved, before := progress{}, time.Now(), time.Now()
	for {
		select {
		case <-g.lost:
			return
		case <-time.After(g.beat):
		}
		if g.over.Load() {
			return
		}
		now := time.Now()
		if now.Sub(before) > silence/silences { // this rank was stopped, perhaps with the others
			g.since.Store(&now)
		}
		before = now
		limit := time.Duration(g.limit.Load()) // before seq: what the rank did before the limit does not count
		at := progress{Seq: g.seq.Load()}
		if f := g.ticks.Load(); f != nil {
			at.Ticks = (*f)()
		}
		if at != self {
			self, moved = at, g.move(moved)
		}
		for _, p := range g.peers {
			p.send(message{progress: at})
		}
		if limit > 0 && g.place.Rank == 0 {
			if e := g.late(max(limit, slack*time.Duration(g.gap.Load())), at, moved); e != nil {
				g.lose(e)
			}
		}
	}
}

// slack is how many times longer than ever before a rank may take to move.
const slack = 4

// late returns an error for the rank that is furthest behind, if it has not moved for longer than limit. The others
// wait for it. If several are at the same place and none of them has moved, it may be any of them. least is rank 0's
// progress, and moved is when rank 0 last moved.
func (g *Group) late(limit time.Duration, least progress, moved time.Time) *Lost {
	behind, queue := []int{0}, g.queue.Load()
	for _, p := range g.peers {
		p.sending.Lock()
		c := p.at.compare(least)
		if queue {
			c = cmp.Compare(p.at.Ticks, least.Ticks)
		}
		switch {
		case c < 0:
			behind, least, moved = []int{p.rank}, p.at, p.moved
		case c == 0:
			behind = append(behind, p.rank)
			if p.moved.After(moved) {
				moved = p.moved
			}
		}
		p.sending.Unlock()
	}
	if since := *g.since.Load(); since.After(moved) {
		moved = since
	}
	if time.Since(moved) <= limit {
		return nil
	}
	why := fmt.Sprintf("has not moved for %v, after %d exchanges with the others", limit.Round(time.Second), least.Seq)
	return &Lost{Rank: behind[0], Or: behind[1:], Why: why, At: g.last()}
}

func (g *Group) last() string {
	if s := g.at.Load(); s != nil {
		return *s
	}
	return ""
}

// lose ends the exchange with all ranks.
func (g *Group) lose(e *Lost) {
	g.once.Do(func() {
		g.err = e
		for _, p := range g.peers {
			if g.place.Rank == 0 {
				p.send(message{Lost: e}) // also to the lost rank, which may be alive: if its GPU hangs
			}
		}
		close(g.lost)
		for _, p := range g.peers {
			p.data.Close()
		}
	})
}

// Alone returns a group of one rank. Its exchanges do not touch tensors, which may be on any device.
func Alone() *Group {
	return &Group{place: Place{Size: 1, LocalSize: 1}, lost: make(chan struct{}), done: make(chan struct{})}
}

// Rank returns this rank's number, and 0 for a nil Group.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.place.Rank
}

// Size returns the number of ranks, and 1 for a nil Group.
func (g *Group) Size() int {
	if g == nil {
		return 1
	}
	return g.place.Size
}

// Lost returns a channel that is closed when a rank is lost.
func (g *Group) Lost() <-chan struct{} { return g.lost }

// Err returns a *Lost if a rank was lost, and otherwise nil.
func (g *Group) Err() error {
	select {
	case <-g.lost:
		return g.err
	default:
		return nil
	}
}

// Progress sets f as the count of what this rank does between exchanges. f is called from another goroutine. For
// Watch, a rank moves if it starts an exchange or if its count grows.
func (g *Group) Progress(f func() int64) { g.ticks.Store(&f) }

// Watch limits, from now on, how long the ranks may go without moving: the rank that is furthest behind counts as lost
// after that time, or after four times as long as any rank has gone so far if that is more. 0, the default, means that
// there is no limit, because rank 0 does something of its own. What counts is rank 0's limit, and the time from now.
func (g *Group) Watch(limit time.Duration) { g.watch(limit, false) }

// WatchQueue is Watch for the time that rank 0 waits for exchanges that the others have queued: the others may have
// started more exchanges, including the ranks that keep rank 0 waiting.
func (g *Group) WatchQueue(limit time.Duration) { g.watch(limit, true) }

func (g *Group) watch(limit time.Duration, queue bool) {
	now := time.Now()
	g.since.Store(&now)
	g.queue.Store(queue)
	g.limit.Store(int64(limit)) // last: whoever sees it sees the others
}

// Watched reports whether there is a limit now.
func (g *Group) Watched() bool { return g.limit.Load() > 0 }

// Close ends this rank. The others get err, if it is not nil and no rank was lost before. A nil Group does nothing.
func (g *Group) Close(err error) {
	if g == nil {
		return
	}
	m := message{Bye: true}
	if err != nil {
		m = message{Failed: fmt.Sprintf("%.2000s", err)}
	}
	if !g.over.Swap(true) && g.Err() == nil {
		for _, p := range g.peers {
			p.send(m)
		}
	}
	for _, p := range g.peers {
		p.close()
	}
}
