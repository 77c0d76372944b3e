package ranks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Join connects the ranks of a run. claims say what this rank is about to do, by name. If any rank's claims differ
// from rank 0's, all ranks get a *Refused that names the differences. Join waits ten minutes for the others.
func Join(ctx context.Context, p Place, claims map[string]string) (*Group, error) {
	g := &Group{place: p, beat: beat, lost: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	all := map[string]string{"attempt": p.Attempt}
	maps.Copy(all, claims)
	meet := g.dial
	if p.Rank == 0 {
		meet = g.listen
	}
	if err := meet(ctx, all); err != nil {
		for _, peer := range g.peers {
			peer.close()
		}
		return nil, err
	}
	for _, peer := range g.peers {
		peer.moved = time.Now()
		go g.hear(peer)
	}
	go g.beats()
	return g, nil
}

// maxFaults is the maximum number of differences that a refusal names, because it is one line.
const maxFaults = 10

// listen is Join for rank 0.
func (g *Group) listen(ctx context.Context, claims map[string]string) error {
	l, err := g.listener()
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	arrived := make(chan *peer)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.greet(ctx, c, arrived)
		}
	}()
	found := map[int]*peer{}
	for missing := 2 * (g.place.Size - 1); missing > 0; missing-- {
		var one *peer
		select {
		case one = <-arrived:
		case <-ctx.Done():
			return g.missing(ctx, found)
		}
		known := found[one.rank]
		switch {
		case known == nil:
			found[one.rank] = one
			g.peers = append(g.peers, one)
		case known.control == nil && one.control != nil:
			known.control, known.lines, known.claims = one.control, one.lines, one.claims
		case known.data == nil && one.data != nil:
			known.data = one.data
		default:
			one.close()
			return g.refuse(fmt.Sprintf("two processes say that they are rank %d", one.rank))
		}
	}
	slices.SortFunc(g.peers, func(a, b *peer) int { return a.rank - b.rank })
	var faults []string
	for _, p := range g.peers {
		faults = append(faults, differences(p.rank, claims, p.claims)...)
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return g.refuse(strings.Join(faults, "; "))
}

// listener returns the socket on which rank 0 waits: the one that Start has opened, or one for the address.
func (g *Group) listener() (net.Listener, error) {
	if g.place.listener != nil {
		return g.place.listener, nil
	}
	if os.Getenv(variableListener) != "" {
		f := os.NewFile(3, "listener")
		defer f.Close()
		os.Unsetenv(variableListener) // of no use to processes that this one starts
		return net.FileListener(f)
	}
	host, port, _ := net.SplitHostPort(g.place.Addr)
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		host = "" // all of this host's: the others may know it by any
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("port %s, on which the ranks are to meet, is in use: set %s to a free one on every rank", port,
			VariablePort)
	}
	return l, err
}

// greet reads the first line of a connection. It drops a connection that is not from a rank, and tells a rank of
// another run why.
func (g *Group) greet(ctx context.Context, c net.Conn, arrived chan<- *peer) {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	lines := bufio.NewReaderSize(c, maxLine)
	line, err := lines.ReadSlice('\n') // what follows on a connection for data comes only when all have met
	var m message
	if err == nil {
		m, err = hello(line, g.place.Size)
	}
	if err != nil {
		if m.Magic == magic {
			(&peer{control: c}).send(message{Refused: err.Error()})
		}
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	p := &peer{rank: m.Rank, control: c, lines: lines, claims: m.Claims}
	if m.Data {
		p = &peer{rank: m.Rank, data: c}
	}
	select {
	case arrived <- p:
	case <-ctx.Done():
		c.Close()
	}
}

// hello parses the first line of a connection.
func hello(line []byte, size int) (m message, err error) {
	err = json.Unmarshal(line, &m)
	if err == nil && (m.Magic != magic || m.Rank < 1 || m.Rank >= size || m.Size != size) {
		err = fmt.Errorf("this is rank %d of %d, and rank 0 is one of %d", m.Rank, m.Size, size)
	}
	return m, err
}

func (g *Group) missing(ctx context.Context, found map[int]*peer) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	var who []string
	first := 0
	for r := g.place.Size - 1; r > 0; r-- {
		if p := found[r]; p == nil || p.control == nil || p.data == nil {
			who, first = append(who, fmt.Sprint(r)), r
		}
	}
	slices.Reverse(who)
	return &Lost{Rank: first, Why: fmt.Sprintf("did not come to %s in %v: of %d ranks, missing are %s", g.place.Addr,
		joinWithin, g.place.Size, strings.Join(who, ", "))}
}

// differences names the claims in which a rank differs from rank 0.
func differences(rank int, want, got map[string]string) (list []string) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if want[name] != got[name] {
			list = append(list, fmt.Sprintf("%s is %.200q on rank %d and %.200q on rank 0", name, got[name], rank, want[name]))
		}
	}
	return list
}

// refuse tells all ranks that the run starts, or why it does not.
func (g *Group) refuse(why string) error {
	for _, p := range g.peers {
		if p.control != nil {
			p.send(message{Refused: why})
		}
	}
	if why != "" {
		return &Refused{why}
	}
	return nil
}

// dial is Join for the other ranks. Rank 0 may start later.
func (g *Group) dial(ctx context.Context, claims map[string]string) (err error) {
	p := &peer{}
	g.peers = []*peer{p}
	m := message{Magic: magic, Rank: g.place.Rank, Size: g.place.Size, Claims: claims}
	if p.control, err = g.connect(ctx); err != nil {
		return err
	}
	p.send(m)
	if p.data, err = g.connect(ctx); err != nil {
		return err
	}
	m.Data, m.Claims = true, nil
	line, _ := json.Marshal(m) // it has nothing that JSON lacks
	if _, err := p.data.Write(append(line, '\n')); err != nil {
		return err
	}
	p.lines = bufio.NewReaderSize(p.control, maxLine)
	defer context.AfterFunc(ctx, func() { p.control.Close() })()
	answer, err := p.read()
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case err != nil:
		return &Lost{Rank: 0, Why: "ended before all ranks had come to " + g.place.Addr}
	case answer.Refused != "":
		return &Refused{answer.Refused}
	}
	return nil
}

func (g *Group) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", g.place.Addr)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(time.Second / 10):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			return nil, &Lost{Rank: 0, Why: fmt.Sprintf("does not listen on %s: %v", g.place.Addr, err)}
		}
	}
}
