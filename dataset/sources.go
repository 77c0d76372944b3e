package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Sources reads the rows of several sources, one source after the other. It is not safe for concurrent use. The caller
// must close it.
type Sources struct {
	List []*Source

	reached int   // the source of List that is being read
	starts  []int // of each source reached so far, the index of its first row
	index   int   // of the next row, counted over all sources
	sample  *sample
}

// OpenAll opens the sources that specs name, each as [Open] does. It reads the first row of each.
func OpenAll(ctx context.Context, specs []string, o Options) (*Sources, error) {
	s := &Sources{starts: []int{0}}
	for _, spec := range specs {
		src, err := Open(ctx, spec, o)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.List = append(s.List, src)
	}
	return s, nil
}

// Rows returns the number of rows of all sources if their formats state it, otherwise -1.
func (s *Sources) Rows() (n int) {
	for _, src := range s.List {
		if src.Rows() < 0 {
			return -1
		}
		n += src.Rows()
	}
	return n
}

// Sample makes Next return n of the sources' rows, drawn by the seed, in the sources' order; all rows must be their
// number. Which rows these are depends on nothing else. Sample must be called before Next.
func (s *Sources) Sample(n, all int, seed uint64) {
	s.sample = &sample{need: min(n, all), left: all, random: rand.NewPCG(seed, 0)}
}

// Next returns the next row, with its index counted over all sources, or io.EOF after the last. It returns the errors
// of [Source.Next].
func (s *Sources) Next() (Row, error) {
	for {
		if s.sample != nil && s.sample.need == 0 {
			return Row{}, io.EOF
		}
		row, err := s.next()
		if bad, ok := errors.AsType[*BadRow](err); (err == nil || ok && bad.Skipped) && s.sample != nil && !s.sample.draw() {
			continue
		}
		return row, err
	}
}

// next returns the next row, drawn or not.
func (s *Sources) next() (Row, error) {
	for s.reached < len(s.List) {
		row, err := s.List[s.reached].Next()
		if err == io.EOF {
			s.reached++
			s.starts = append(s.starts, s.index)
			continue
		}
		row.Index = s.index
		if bad, ok := errors.AsType[*BadRow](err); ok {
			bad.Index = s.index
		}
		s.index++
		return row, err
	}
	return Row{}, io.EOF
}

// Origin returns the source of a row that Next has returned, and the row's index in that source. index is the row's
// own.
func (s *Sources) Origin(index int) (src *Source, row int) {
	at, found := slices.BinarySearch(s.starts, index)
	if !found {
		at--
	}
	return s.List[at], index - s.starts[at]
}

// Place returns where a row is, for people: "row 5", or "row 5 of b.json" if there are several sources. index is the
// row's own.
func (s *Sources) Place(index int) string {
	src, row := s.Origin(index)
	if len(s.List) == 1 {
		return fmt.Sprintf("row %d", row)
	}
	return fmt.Sprintf("row %d of %s", row, src.Name)
}

// Close closes all sources. Next must not be called after it.
func (s *Sources) Close() error {
	var err error
	for _, src := range s.List {
		err = errors.Join(err, src.Close())
	}
	return err
}

// A sample draws need of the next left rows, every set of them with the same probability (Knuth, The Art of Computer
// Programming, volume 2, algorithm 3.4.2S).
type sample struct {
	need, left int
	random     *rand.PCG
}

// draw reports whether the next row is drawn.
func (s *sample) draw() bool {
	at, _ := bits.Mul64(s.random.Uint64(), uint64(s.left)) // below left; the bias is below left/2^64
	s.left--
	if at >= uint64(s.need) {
		return false
	}
	s.need--
	return true
}
