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

// chunk is the number of bytes of a tensor that are added up at a time. maxShared is the maximum number of bytes that
// Share sends.
const chunk, maxShared = 256 << 10, 64 << 20

// begin starts an exchange.
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

// An outOfStep is the error of a rank that does something other than this one.
type outOfStep struct{ error }

// fail returns why an exchange with a peer failed. The peer's control connection may know more.
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

func (g *Group) write(p *peer, data []byte) error {
	_, err := p.data.Write(g.header(len(data)))
	if err == nil {
		_, err = p.data.Write(data)
	}
	return err
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
			if err := g.write(p, data); err != nil {
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

// everyone means that every rank gets a sum, or what a rank gives.
const everyone = -1

// Sum replaces every rank's x, in this process's memory and of type F32, F64 or BF16, by the sum over all ranks. The
// sum is added up in the order of the ranks, in F32 for BF16 and rounded once: its bits depend on nothing else, and are
// the same on every rank.
func (g *Group) Sum(name string, x tensor.Tensor) error { return g.sum(name, x, x, everyone) }

// SumTo sums tensors as Sum does, but only rank r gets the sums of byRank[r]. There the sums replace the tensors, or
// into if that is not nil. The other ranks' tensors stay.
func (g *Group) SumTo(name string, byRank [][]tensor.Tensor, into []tensor.Tensor) error {
	for r, list := range byRank {
		for i, x := range list {
			to := x
			if r == g.place.Rank && into != nil {
				to = into[i]
			}
			if err := g.sum(name, x, to, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Group) sum(name string, x, to tensor.Tensor, owner int) error {
	if err := g.begin(name); err != nil || g.place.Size == 1 && to.Addr == x.Addr {
		return err
	}
	if g.place.Rank == 0 {
		return g.add(x, to, owner)
	}
	p, raw, result := g.peers[0], x.Raw(), to.Raw()
	if owner != everyone && owner != g.place.Rank {
		if err := g.write(p, raw); err != nil {
			return g.fail(p, err)
		}
		return nil
	}
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
			_, err = io.ReadFull(p.data, result[at:min(at+chunk, len(raw))])
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

// add is sum on rank 0.
func (g *Group) add(x, to tensor.Tensor, owner int) error {
	raw, result := x.Raw(), to.Raw()
	var get []*peer // who gets the sum, besides this rank
	for _, p := range g.peers {
		if _, err := g.readHeader(p.data, len(raw)); err != nil {
			return g.fail(p, err)
		}
		if owner == everyone || owner == p.rank {
			get = append(get, p)
			if _, err := p.data.Write(g.header(len(raw))); err != nil {
				return g.fail(p, err)
			}
		}
	}
	own, part, wide := make([]byte, chunk), make([]byte, chunk), make([]float32, chunk/2) // the last for BF16
	for at := 0; at < len(raw); at += chunk {
		of := own[:copy(own, raw[at:])]
		wide := wide[:len(of)/2]
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
		if owner == everyone || owner == 0 {
			copy(result[at:], of)
		}
		for _, p := range get {
			if _, err := p.data.Write(of); err != nil {
				return g.fail(p, err)
			}
		}
	}
	return nil
}

// Spread replaces byRank[r], tensors in this process's memory, by rank r's on every rank.
func (g *Group) Spread(name string, byRank [][]tensor.Tensor) error {
	for r, list := range byRank {
		for _, x := range list {
			if err := g.relay(name, r, everyone, x.Raw(), x.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exchange gives every other rank r this rank's to[r], and replaces from[s] by what every other rank s has for this
// one: each rank has tensors of the same sizes for a rank.
func (g *Group) Exchange(name string, from, to [][]tensor.Tensor) error {
	me := g.place.Rank
	for s := range to {
		for r, list := range to {
			if r == s {
				continue
			}
			for i, x := range list {
				if r == me {
					x = from[s][i]
				}
				if err := g.relay(name, s, r, x.Raw(), x.Bytes()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Move replaces data on rank to by rank from's data, which has as many bytes.
func (g *Group) Move(name string, from, to int, data []byte) error {
	if from == to {
		return nil
	}
	return g.relay(name, from, to, data, len(data))
}

// relay sends data of rank from, of the given number of bytes, to rank to or everyone, through rank 0. data is what to
// send, or where to receive it. Every rank calls it.
func (g *Group) relay(name string, from, to int, data []byte, bytes int) error {
	if err := g.begin(name); err != nil {
		return err
	}
	if me := g.place.Rank; me > 0 {
		p, err := g.peers[0], error(nil)
		switch {
		case me == from:
			err = g.write(p, data)
		case me == to || to == everyone:
			if _, err = g.readHeader(p.data, bytes); err == nil {
				_, err = io.ReadFull(p.data, data)
			}
		}
		if err != nil {
			return g.fail(p, err)
		}
		return nil
	}
	var get []*peer
	for _, p := range g.peers {
		if p.rank != from && (p.rank == to || to == everyone) {
			get = append(get, p)
			if _, err := p.data.Write(g.header(bytes)); err != nil {
				return g.fail(p, err)
			}
		}
	}
	if from > 0 {
		if _, err := g.readHeader(g.peers[from-1].data, bytes); err != nil {
			return g.fail(g.peers[from-1], err)
		}
	}
	part := make([]byte, min(chunk, bytes))
	for at := 0; at < bytes; at += chunk {
		of := part[:min(chunk, bytes-at)]
		if to <= 0 || from == 0 { // the data is this rank's, or for it
			of = data[at : at+len(of)]
		}
		if from > 0 {
			if _, err := io.ReadFull(g.peers[from-1].data, of); err != nil {
				return g.fail(g.peers[from-1], err)
			}
		}
		for _, p := range get {
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

// SumFloats replaces x by the sum of the ranks' x, added up in the order of the ranks.
func (g *Group) SumFloats(name string, x []float64) error {
	if len(x) == 0 {
		return g.begin(name)
	}
	defer runtime.KeepAlive(x)
	return g.Sum(name, tensor.Tensor{Name: name, DType: tensor.F64, Shape: []int{len(x)},
		Addr: uintptr(unsafe.Pointer(&x[0]))})
}
