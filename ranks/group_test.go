package ranks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"restyle/internal/hostile"
	"restyle/tensor"
)

// together runs f on each of several ranks in this process, and returns their errors. edit changes what a rank claims.
func together(t *testing.T, size int, edit func(rank int, claims map[string]string),
	f func(g *Group) error) []error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, size)
	var wait sync.WaitGroup
	for r := range size {
		wait.Go(func() {
			claims := map[string]string{"version": "1", "data": "abc"}
			if edit != nil {
				edit(r, claims)
			}
			p := Place{Rank: r, Size: size, Addr: l.Addr().String(), listener: l}
			g, err := Join(t.Context(), p, claims)
			if errs[r] = err; err == nil {
				errs[r] = f(g)
				g.Close(nil)
			}
		})
	}
	wait.Wait()
	return errs
}

func of[T any](t tensor.DType, x []T) tensor.Tensor {
	return tensor.Tensor{Name: "x", DType: t, Shape: []int{len(x)}, Addr: uintptr(unsafe.Pointer(&x[0]))}
}

// TestSum_AddsInOrder sums tensors of odd sizes, some longer than a chunk, and compares the bits with sums in the
// order of the ranks.
func TestSum_AddsInOrder(t *testing.T) {
	for _, size := range []int{2, 3} {
		for _, n := range []int{1, 1001, chunk/2 + 3} {
			values := make([][]float32, size)
			random := rand.New(rand.NewPCG(1, uint64(n)))
			want, wantHalf, wantWide := make([]float32, n), make([]uint16, n), make([]float64, n)
			for r := range size {
				values[r] = make([]float32, n)
				for i := range n {
					values[r][i] = float32(random.NormFloat64())
				}
			}
			for i := range n {
				var half float32
				for r := range size {
					want[i] += values[r][i]
					wantWide[i] += float64(values[r][i])
					half += tensor.BF16ToF32(tensor.BF16FromF32(values[r][i]))
				}
				wantHalf[i] = tensor.BF16FromF32(half)
			}
			for _, err := range together(t, size, nil, func(g *Group) error {
				x, half, wide := append([]float32(nil), values[g.Rank()]...), make([]uint16, n), make([]float64, n)
				for i := range x {
					half[i], wide[i] = tensor.BF16FromF32(x[i]), float64(x[i])
				}
				err := errors.Join(g.Sum("x", of(tensor.F32, x)), g.Sum("half", of(tensor.BF16, half)),
					g.Sum("wide", of(tensor.F64, wide)))
				for i := range x {
					if math.Float32bits(x[i]) != math.Float32bits(want[i]) || half[i] != wantHalf[i] || wide[i] != wantWide[i] {
						return fmt.Errorf("rank %d of %d: element %d is %v, %x, %v, want %v, %x, %v", g.Rank(), size, i, x[i],
							half[i], wide[i], want[i], wantHalf[i], wantWide[i])
					}
				}
				data, err2 := g.Share("words", []byte(fmt.Sprint("from rank ", g.Rank())))
				if string(data) != "from rank 0" {
					return fmt.Errorf("rank %d has %q", g.Rank(), data)
				}
				return errors.Join(err, err2)
			}) {
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestByRank checks what each rank has after sums for one rank, and after spreading, exchanging and moving, if rank r
// starts with the numbers 10r + i.
func TestByRank(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		lens := []int{chunk/4 + 3, 1, 7} // of each rank's tensors
		for _, err := range together(t, size, nil, func(g *Group) error {
			me, sum := g.Rank(), 10*size*(size-1)/2
			fill := func(rank int) (byRank [][]tensor.Tensor, values [][]float32) {
				for r := range size {
					x := make([]float32, lens[r])
					for i := range x {
						x[i] = float32(10*rank + i)
					}
					values = append(values, x)
					byRank = append(byRank, []tensor.Tensor{of(tensor.F32, x)})
				}
				return byRank, values
			}
			check := func(what string, x []float32, first, each int) error {
				for i := range x {
					if x[i] != float32(first+each*i) {
						return fmt.Errorf("%s, rank %d of %d: element %d is %v, want %d", what, me, size, i, x[i], first+each*i)
					}
				}
				return nil
			}
			summed, s := fill(me)
			into := make([]float32, lens[me])
			apart, a := fill(me)
			spread, p := fill(me)
			to, given := fill(me)
			defer runtime.KeepAlive(given)
			from, f := fill(0)
			for i := range from { // what others have for this rank is as long as its own
				f[i] = make([]float32, lens[me])
				from[i] = []tensor.Tensor{of(tensor.F32, f[i])}
			}
			data := []byte{byte(me)}
			err := errors.Join(g.SumTo("sums", summed, nil), g.SumTo("sums", apart, []tensor.Tensor{of(tensor.F32, into)}),
				g.Spread("spread", spread), g.Exchange("exchange", from, to), g.Move("there", 0, size-1, data),
				check("in place", s[me], sum, size), check("apart", into, sum, size), check("stay", a[me], 10*me, 1))
			for r := range size {
				err = errors.Join(err, check("spread", p[r], 10*r, 1))
				if r != me {
					err = errors.Join(err, check("others'", s[r], 10*me, 1), check("exchanged", f[r], 10*r, 1))
				}
			}
			if me == size-1 && data[0] != 0 {
				err = errors.Join(err, fmt.Errorf("moved: %d", data[0]))
			}
			return errors.Join(err, g.Move("back", size-1, 0, data))
		}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAlone checks that one rank's exchanges do not touch tensors.
func TestAlone(t *testing.T) {
	g, device := Alone(), tensor.Tensor{DType: tensor.F32, Shape: []int{1 << 30}, Addr: 4096}
	lists := [][]tensor.Tensor{{device}}
	if err := errors.Join(g.Sum("x", device), g.SumTo("x", lists, nil), g.Exchange("x", lists, lists)); err != nil {
		t.Error(err)
	}
	g.Close(nil)
}

// TestJoin_RefusesDifferences checks that every rank gets the name of each difference.
func TestJoin_RefusesDifferences(t *testing.T) {
	for _, err := range together(t, 3, func(rank int, claims map[string]string) {
		if rank == 2 {
			claims["data"], claims["extra"] = "xyz", "1"
		}
	}, func(*Group) error { return nil }) {
		if e := (*Refused)(nil); !errors.As(err, &e) || !strings.Contains(e.Why,
			`data is "xyz" on rank 2 and "abc" on rank 0; extra is "1" on rank 2 and "" on rank 0`) {
			t.Errorf("%v", err)
		}
	}
}

// TestJoin_RefusesOfAnotherRun has a rank connect that knows of more ranks than rank 0 does. Rank 0 keeps waiting for
// its own.
func TestJoin_RefusesOfAnotherRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error)
	go func() {
		g, err := Join(t.Context(), Place{Size: 2, listener: l}, nil)
		g.Close(nil)
		first <- err
	}()
	_, err = Join(t.Context(), Place{Rank: 2, Size: 4, Addr: l.Addr().String()}, nil)
	const want = "this is rank 2 of 4, and rank 0 is one of 2"
	if e := (*Refused)(nil); !errors.As(err, &e) || !strings.Contains(e.Why, want) {
		t.Error(err)
	}
	g, err := Join(t.Context(), Place{Rank: 1, Size: 2, Addr: l.Addr().String()}, nil)
	g.Close(nil)
	if err := errors.Join(err, <-first); err != nil {
		t.Error(err)
	}
}

// TestLost checks that every other rank names the rank that is lost, and what the others were about to do.
func TestLost(t *testing.T) {
	defer func(b time.Duration) { beat = b }(beat)
	beat = 20 * time.Millisecond
	hangs := make(chan struct{})
	for name, c := range map[string]struct {
		f     func(g *Group) error // what rank 1 does instead of the sum
		wants []string
	}{
		"ends": {func(g *Group) error { g.peers[0].close(); return nil }, []string{"rank 1 has ended"}},
		"fails": {func(g *Group) error { g.Close(errors.New("the disk is full")); return nil },
			[]string{"rank 1 failed: the disk is full"}},
		"hangs": {func(g *Group) error { <-hangs; return nil },
			[]string{"rank 1 has not moved", "after 1 exchanges", "the sum of x"}},
		"other": {func(g *Group) error { return g.Sum("y", of(tensor.F32, make([]float32, 2))) },
			[]string{"rank ", "it is at exchange 2, of", "bytes, and this rank at 2"}},
	} {
		errs := together(t, 3, nil, func(g *Group) error {
			if _, err := g.Share("the beginning", nil); err != nil {
				return err
			}
			if g.Rank() == 1 {
				return c.f(g)
			}
			if name == "hangs" {
				g.Watch(10 * beat)
			}
			err := g.Sum("the sum of x", of(tensor.F32, make([]float32, 5)))
			if name == "hangs" && g.Rank() == 0 {
				close(hangs)
			}
			return err
		})
		for _, r := range []int{0, 2} {
			e := (*Lost)(nil)
			for _, want := range c.wants {
				if !errors.As(errs[r], &e) || !strings.Contains(e.Error(), want) {
					t.Errorf("%s, rank %d: %v, want %q", name, r, errs[r], want)
				}
			}
		}
	}
}

// TestLost_NamesTheExchange checks the error in a step, and between two steps, where there is no exchange that a user
// knows.
func TestLost_NamesTheExchange(t *testing.T) {
	for at, want := range map[string]string{"": "rank 1 has ended",
		"the sum of x": "rank 1 has ended; the last exchange begun was the sum of x"} {
		if e := (&Lost{Rank: 1, Why: "has ended", At: at}).Error(); e != want {
			t.Errorf("%q, want %q", e, want)
		}
	}
}

// TestLate checks that late names the rank that the others wait for. Rank 0 is the first of ranks.
func TestLate(t *testing.T) {
	const limit, long = time.Minute, time.Hour
	type rank struct {
		at    progress
		still time.Duration
	}
	on := func(seq, ticks int64) rank { return rank{progress{seq, ticks}, long} }
	for name, c := range map[string]struct {
		ranks []rank
		want  string // the start of the error; "": none
	}{
		"behind":         {[]rank{on(7, 40), on(7, 12)}, "rank 1 has not moved for 1m0s"},
		"behind, slowly": {[]rank{on(7, 40), {progress{7, 12}, 0}}, ""},
		"itself":         {[]rank{on(7, 12), on(7, 40)}, "rank 0 has not moved"},
		"on the CPU":     {[]rank{on(6, 40), on(7, 40)}, "rank 0 has not moved"},
		// Its passes are short: all their exchanges are queued, and its GPU has come to none of them.
		"has queued more": {[]rank{on(7, 40), on(19, 12)}, "rank 1 has not moved"},
		"two":             {[]rank{on(7, 40), on(7, 12), on(7, 12)}, "rank 1 or 2 has not"},
		"three":           {[]rank{on(7, 4), on(7, 4), on(7, 4)}, "rank 0, 1 or 2 has not"},
		"many":            {slices.Repeat([]rank{on(7, 4)}, 9), "rank 0 or one of 8 others has not moved"},
		"queue":           {[]rank{on(7, 4), on(9, 4), on(9, 5)}, "rank 0 or 1 has not moved"},
		"just caught up":  {[]rank{on(7, 12), {progress{7, 12}, 0}}, ""},
	} {
		now := time.Now()
		before := now.Add(-2 * long)
		g := &Group{}
		g.queue.Store(name == "queue")
		g.since.Store(&before)
		for r, x := range c.ranks[1:] {
			g.peers = append(g.peers, &peer{rank: r + 1, at: x.at, moved: now.Add(-x.still)})
		}
		e := g.late(limit, c.ranks[0].at, now.Add(-c.ranks[0].still))
		if (e == nil) != (c.want == "") || e != nil && !strings.HasPrefix(e.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, e, c.want)
		}
	}
}

// TestJoin_WaitsForAll checks the error if a rank does not connect, and that a connection from something else is
// dropped.
func TestJoin_WaitsForAll(t *testing.T) {
	defer func(d time.Duration) { joinWithin = d }(joinWithin)
	joinWithin = 300 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	fmt.Fprint(other, "GET / HTTP/1.1\n")
	_, err = Join(context.Background(), Place{Size: 3, Addr: l.Addr().String(), listener: l}, nil)
	if e := (*Lost)(nil); !errors.As(err, &e) || !strings.Contains(e.Error(), "rank 1 did not come to 127.0.0.1:") {
		t.Error(err)
	}
	_ = other.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := other.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection of something else: %v, want EOF", err)
	}
}

// FuzzHello reads any line as the first one of a connection.
func FuzzHello(f *testing.F) {
	good, _ := json.Marshal(message{Magic: magic, Rank: 1, Size: 2, Claims: map[string]string{"a": "b"}})
	f.Add(append(good, '\n'))
	f.Add([]byte(`{"Rank":-1}`))
	for _, wide := range hostile.Wide() {
		f.Add([]byte(wide))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := hostile.Parse(t, line, func(line []byte) (message, error) { return hello(line, 2) })
		if err == nil && (m.Rank != 1 || m.Size != 2) {
			t.Errorf("%q: rank %d of %d", line, m.Rank, m.Size)
		}
	})
}

// TestListener_Loopback checks that other hosts cannot reach the ranks of one host.
func TestListener_Loopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "10.0.0.1:0": false,
		"host:0": false} {
		l, err := (&Group{place: Place{Addr: addr}}).listener()
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Addr().(*net.TCPAddr).IP.IsLoopback(); got != want {
			t.Errorf("%s: %v", addr, l.Addr())
		}
		l.Close()
	}
}

// stoppedConn is a connection on which time passes: each read comes too late, as many times as are left, and then
// there is a line.
type stoppedConn struct {
	net.Conn
	left int
}

func (c *stoppedConn) SetReadDeadline(time.Time) error { return nil }

func (c *stoppedConn) Read(b []byte) (int, error) {
	if c.left--; c.left >= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, `{"Bye":true}`+"\n"), nil
}

// TestHear_AfterAStop checks that a rank which was stopped itself does not count the others as lost, and that silence
// does.
func TestHear_AfterAStop(t *testing.T) {
	for late, lost := range map[int]bool{0: false, 1: false, silences - 1: false, silences + 1: true} {
		g := &Group{lost: make(chan struct{}), done: make(chan struct{})}
		c := &stoppedConn{left: late}
		g.hear(&peer{rank: 1, control: c, lines: bufio.NewReader(c)})
		if got := g.Err() != nil; got != lost {
			t.Errorf("%d reads that come too late: %v, want lost %v", late, g.Err(), lost)
		}
	}
}
