package hf

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"

	"restyle/kernels"
	"restyle/model"
	"restyle/quant"
	"restyle/tensor"
)

// chunkElements is the number of elements of a weight that are read, converted and stored at a time.
const chunkElements = 1 << 20

// Load loads the checkpoint's weights into a model's parameters, converted to their type: F32 to F32 and BF16 and F16
// to F32 without loss, other combinations rounded to nearest even. A parameter of a quantized type gets weights that
// are stored in that type, and others by quant.RuleFor. Other parameters get the values of weights that are stored
// quantized. Load reads a few MB at a time, several parts at once. If a weight is NaN, infinite or too large for the
// parameter's type, the error names it. A head that is stored in addition to a tied embedding must be equal to it;
// Load checks that when it loads the embedding. If ctx is done, Load returns its error.
//
// Load calls progress, unless it is nil, from its own goroutine with the number of bytes of the weights loaded and
// the number of bytes of all weights. In the last call both are equal.
func (c *Checkpoint) Load(ctx context.Context, d *kernels.Device, params []model.Param,
	progress func(done, total int64)) error {
	var total int64
	stored := map[string]model.Param{}
	for _, p := range c.params() {
		stored[p.Name] = p
	}
	for _, p := range params {
		info, ok := c.Tensor(p.Name)
		if !ok {
			return fmt.Errorf("%s has no weight %s", c.label, p.Name)
		}
		want := fileShape(p)
		if of := stored[p.Name].W.DType; of.Quantized() {
			want = c.storedAs(p, of)
			if err := quantizedAs(p, of); err != nil {
				return fmt.Errorf("%s: %w", c.label, err)
			}
		}
		if in := p.W.Dim(-1); c.packed != nil && p.W.DType == tensor.NF4 && in%quant.NF4Block != 0 {
			return fmt.Errorf("%s: %s has rows of %d numbers, which %s' blocks of %d straddle: %s", c.label, p.Name, in,
				bitsAndBytes, quant.NF4Block, instead)
		}
		if !slices.Equal(info.Shape, want) {
			return fmt.Errorf("%s: %s has shape %s: the model needs %v", c.label, p.Name, shape(info.Shape), want)
		}
		total += info.Bytes
	}
	embedding := c.Config.Params()[0].Name
	if slices.ContainsFunc(params, func(p model.Param) bool { return p.Name == embedding }) {
		if err := c.checkTied(); err != nil {
			return err
		}
	}
	var done int64
	count := func(bytes int) {
		if done += int64(bytes); progress != nil {
			progress(done, total)
		}
	}
	if err := c.load(ctx, d, params, stored, count); err != nil {
		return fmt.Errorf("%s: %w", c.label, err)
	}
	return d.Err()
}

// chunk is part of a weight on its way to the device.
type chunk struct {
	param    *model.Param
	from     tensor.DType // a quantized type, if the weight is stored so
	at, n    int          // elements
	raw, out []byte
	read     int // bytes
	done     chan error
}

// load reads and converts chunks in several goroutines. It stores them in this one, because that owns the device. A few
// chunks are in progress at a time and reuse their buffers.
//
// Reading waits for the disk, converting for a core, and storing for the device: one goroutine for all three would
// leave two of them idle. A weight as a whole would be too large a piece, because the embedding of a large model
// takes a gigabyte. Chunks are stored in the order in which they were started, so progress is steady, and the first
// error is the first weight's. Quantized weights are cut at whole rows, each of which starts with its scales, and a
// transposed weight is one chunk, because each of its rows is spread over the whole matrix in the file. So is one
// that becomes NF4, whose scales are quantized together. No more elements are in progress than chunks of
// chunkElements would have, unless it is one chunk.
func (c *Checkpoint) load(ctx context.Context, d *kernels.Device, params []model.Param,
	stored map[string]model.Param, count func(bytes int)) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	todo := make(chan *chunk, 2*workers)
	defer close(todo)
	for range workers {
		go func() {
			for k := range todo {
				k.done <- c.readChunk(k)
			}
		}()
	}
	var queue []*chunk // the oldest first
	store := func() error {
		k := queue[0]
		if err := <-k.done; err != nil {
			return err
		}
		to := k.param.W
		if to.DType.Quantized() {
			to = to.Slice(k.at/to.Dim(-1), (k.at+k.n)/to.Dim(-1))
		} else {
			to = to.Part(k.at, k.n)
		}
		d.UploadBytes(to, k.out)
		count(k.read)
		return nil
	}
	for i := range params {
		p := &params[i]
		size, from := chunkElements, stored[p.Name].W.DType
		switch in := p.W.Dim(-1); {
		case c.packed != nil && from.Quantized() && !p.W.DType.Quantized(): // no rows, but whole blocks
		case from.Quantized() || p.W.DType.Quantized() && p.W.DType != tensor.NF4 && !p.Transposed: // whole rows
			size = max(1, size/in) * in
		case p.Transposed || p.W.DType == tensor.NF4: // a row of it, or its scales, need the whole matrix
			size = p.W.Len()
		}
		for at := 0; at < p.W.Len(); at += size {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(size, p.W.Len()-at)
			k := &chunk{done: make(chan error, 1)}
			for len(queue) == cap(todo) || len(queue) > 0 && elements(queue)+n > cap(todo)*chunkElements {
				if err := store(); err != nil {
					return err
				}
				k, queue = queue[0], queue[1:]
			}
			k.param = p
			k.from = from
			k.at = at
			k.n = n
			queue = append(queue, k)
			todo <- k
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if err := store(); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the number of elements of chunks.
func elements(chunks []*chunk) (n int) {
	for _, k := range chunks {
		n += k.n
	}
	return n
}

// readChunk reads and converts a chunk.
func (c *Checkpoint) readChunk(k *chunk) error {
	name, w := k.param.Name, k.param.W
	s, stored := c.weights.find(name)
	in := w.Dim(-1)
	if p, is := c.packed[name]; is {
		if err := c.readPackedChunk(k, p); err != nil {
			return fmt.Errorf("%s, from number %d: %w", name, k.at, err)
		}
		return nil
	}
	if k.from.Quantized() {
		row := k.from.RowBytes(in)
		k.raw = slices.Grow(k.raw[:0], k.n/in*row)[:k.n/in*row]
		k.read = len(k.raw)
		err := s.ReadAt(stored, k.raw, int64(k.at/in)*int64(row))
		switch {
		case err != nil:
		case w.DType.Quantized():
			err = k.toQuantized(k.from)
		default:
			err = k.fromQuantized(k.from, w.DType)
		}
		if err != nil {
			err = fmt.Errorf("%s, from row %d: %w", name, k.at/in, err)
		}
		return err
	}
	info, _ := s.Tensor(stored)
	from, err := tensor.ParseDType(info.DType)
	if err != nil {
		return err
	}
	to := w.DType
	if to.Quantized() {
		to = tensor.F32
	}
	k.raw = slices.Grow(k.raw[:0], k.n*from.Size())[:k.n*from.Size()]
	k.read = len(k.raw)
	k.out = slices.Grow(k.out[:0], k.n*to.Size())[:k.n*to.Size()]
	if err := s.ReadAt(stored, k.raw, int64(k.at)*int64(from.Size())); err != nil {
		return err
	}
	if err := named(name, k.at, convert(k.out, to, k.raw, from)); err != nil {
		return err
	}
	if k.param.Transposed {
		k.out = transposed(k.out, in, to)
	}
	if w.DType.Quantized() {
		if err := k.toQuantized(0); err != nil {
			return fmt.Errorf("%s, from row %d: %w", name, k.at/in, err)
		}
	}
	return nil
}

// named adds the weight's name to an error of convert, and counts the element from the start of the weight.
func named(name string, at int, err error) error {
	if u, ok := err.(unfit); ok {
		return fmt.Errorf("element %d of %s is %s: the file is damaged, or the training that made it went wrong", at+u.at,
			name, u.what)
	}
	return err
}

// checkTied compares a head that is stored in addition to a tied embedding with the embedding.
func (c *Checkpoint) checkTied() error {
	h, ok := c.Tensor(head)
	if !ok || !c.Config.Tied {
		return nil
	}
	embedding := c.Config.Params()[0].Name
	e, _ := c.Tensor(embedding)
	file, stored := c.weights.find(embedding)
	same := h.DType == e.DType && slices.Equal(h.Shape, e.Shape)
	a, b := make([]byte, chunkElements), make([]byte, chunkElements)
	for at := int64(0); same && at < e.Bytes; at += chunkElements {
		n := min(chunkElements, e.Bytes-at)
		if err := c.weights.where[head].ReadAt(head, a[:n], at); err != nil {
			return err
		}
		if err := file.ReadAt(stored, b[:n], at); err != nil {
			return err
		}
		same = bytes.Equal(a[:n], b[:n])
	}
	if !same {
		return fmt.Errorf("%s: tie_word_embeddings is true, but %s differs from %s: set it to false to keep both, or "+
			"remove one", c.label, head, embedding)
	}
	return nil
}
