package ranks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"
	"unsafe"

	"restyle/tensor"
)

// chunk is how many bytes of a tensor are added up at a time. maxShared is the maximum size of what Share sends.
const chunk, maxShared = 256 << 10, 64 << 20

// begin begins an exchange.
func (g *Group) begin(name string) error {
	if err := g.Err(); err != nil {
		return err
	}
	g.at.Store(&name)
	g.seq.Add(1)
	return nil
}

// Step counts an exchange that goes another way, such as through NCCL, for Watch and for the text of errors.
func (g *Group) Step(name string) error { return g.begin(name) }

// An outOfStep is the error of a rank that does something else than this one.
type outOfStep struct{ error }

// fail returns why an exchange with a peer failed. Its connection for control may know more.
func (g *Group) fail(p *peer, err error) error {
	wait := time.Second
	if errors.As(err, &outOfStep{}) {
		wait = 0
	}
	select {
	case <-g.lost:
	case <-g.done:
		return ErrEnded
	case <-time.After(wait):
		g.lose(&Lost{Rank: p.rank, Why: fmt.Sprintf("cannot go on: %v", err), At: g.last()})
		<-g.lost
	}
	return g.err
}

// A header comes before the data of an exchange, so that ranks that do different things notice it: how many exchanges
// came before, and how many bytes follow.
const headerBytes = 16

func (g *Group) header(bytes int) []byte {
	h := binary.LittleEndian.AppendUint64(nil, uint64(g.seq.Load()))
	return binary.LittleEndian.AppendUint64(h, uint64(bytes))
}

// readHeader returns the number of bytes that follow, and an error if it is not want, unless want is negative.
func (g *Group) readHeader(r io.Reader, want int) (int, error) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, err
	}
	seq, n := binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])
	if seq != uint64(g.seq.Load()) || want >= 0 && n != uint64(want) || n > math.MaxInt {
		return 0, outOfStep{fmt.Errorf("it is at exchange %d, of %d bytes, and this rank at %d, of %d bytes", seq, n,
			g.seq.Load(), want)}
	}
	return int(n), nil
}

// Share returns rank 0's data, at most 64 MiB, on every rank.
func (g *Group) Share(name string, data []byte) ([]byte, error) {
	if err := g.begin(name); err != nil {
		return nil, err
	}
	if g.place.Rank == 0 {
		if len(data) > maxShared {
			panic(fmt.Sprintf("share %s: %d bytes: must be at most %d", name, len(data), maxShared))
		}
		for _, p := range g.peers {
			if _, err := p.data.Write(append(g.header(len(data)), data...)); err != nil {
				return nil, g.fail(p, err)
			}
		}
		return data, nil
	}
	p := g.peers[0]
	n, err := g.readHeader(p.data, -1)
	if err == nil && n > maxShared {
		err = fmt.Errorf("%s has %d bytes: must have at most %d", name, n, maxShared)
	}
	if err != nil {
		return nil, g.fail(p, err)
	}
	data = make([]byte, n)
	if _, err := io.ReadFull(p.data, data); err != nil {
		return nil, g.fail(p, err)
	}
	return data, nil
}

// Sum replaces every rank's x, in this process's memory and of type F32, F64 or BF16, by the sum over all ranks. The
// sum is added up in the order of the ranks, in F32 for BF16 and rounded once: its bits depend on nothing else, and are
// the same on every rank.
func (g *Group) Sum(name string, x tensor.Tensor) error {
	if err := g.begin(name); err != nil {
		return err
	}
	if g.place.Rank == 0 {
		return g.add(x)
	}
	p, raw := g.peers[0], x.Raw()
	sent := make(chan error, 1+len(raw)/chunk) // for each chunk
	go func() {
		_, err := p.data.Write(g.header(len(raw)))
		for at := 0; at < len(raw); at += chunk {
			if err == nil {
				_, err = p.data.Write(raw[at:min(at+chunk, len(raw))])
			}
			sent <- err
		}
	}()
	_, err := g.readHeader(p.data, len(raw))
	if err != nil {
		p.data.Close() // which ends the sending
	}
	for at := 0; at < len(raw); at += chunk {
		if failed := <-sent; err == nil {
			err = failed
		}
		if err == nil {
			_, err = io.ReadFull(p.data, raw[at:min(at+chunk, len(raw))])
		}
		if err != nil {
			p.data.Close()
		}
	}
	if err != nil {
		return g.fail(p, err)
	}
	return nil
}

// add is Sum on rank 0.
func (g *Group) add(x tensor.Tensor) error {
	raw := x.Raw()
	for _, p := range g.peers {
		if _, err := g.readHeader(p.data, len(raw)); err != nil {
			return g.fail(p, err)
		}
		if _, err := p.data.Write(g.header(len(raw))); err != nil {
			return g.fail(p, err)
		}
	}
	part, sum := make([]byte, chunk), make([]float32, chunk/2) // the second for BF16
	for at := 0; at < len(raw); at += chunk {
		of := raw[at:min(at+chunk, len(raw))]
		wide := sum[:len(of)/2]
		if x.DType == tensor.BF16 {
			clear(wide)
			addBF16(wide, of)
		}
		for _, p := range g.peers {
			got := part[:len(of)]
			if _, err := io.ReadFull(p.data, got); err != nil {
				return g.fail(p, err)
			}
			switch x.DType {
			case tensor.F32:
				addTo[float32](of, got)
			case tensor.F64:
				addTo[float64](of, got)
			case tensor.BF16:
				addBF16(wide, got)
			default:
				panic(fmt.Sprintf("sum of %v: must be F32, F64 or BF16", x))
			}
		}
		if x.DType == tensor.BF16 {
			for i, half := 0, view[uint16](of); i < len(half); i++ {
				half[i] = tensor.BF16FromF32(wide[i])
			}
		}
		for _, p := range g.peers {
			if _, err := p.data.Write(of); err != nil {
				return g.fail(p, err)
			}
		}
	}
	return nil
}

func view[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(one)))
}

func addTo[T float32 | float64](sum, x []byte) {
	to, from := view[T](sum), view[T](x)
	for i := range to {
		to[i] += from[i]
	}
}

func addBF16(sum []float32, x []byte) {
	for i, h := range view[uint16](x) {
		sum[i] += tensor.BF16ToF32(h)
	}
}

// SumFloat returns the sum of the ranks' x.
func (g *Group) SumFloat(name string, x float64) (float64, error) {
	sum := []float64{x}
	err := g.Sum(name, tensor.Tensor{Name: name, DType: tensor.F64, Shape: []int{1},
		Addr: uintptr(unsafe.Pointer(&sum[0]))})
	runtime.KeepAlive(sum)
	return sum[0], err
}
