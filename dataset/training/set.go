package training

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"restyle/dataset"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Set is a data set as a model is trained on it.
type Set struct {
	Examples []Example // those from which something is learned, in the order of the rows

	Name, Revision, Format string // as of dataset.Conversations

	Rows            int                   // how many were read
	Truncated       int                   // how many of Examples were cut to fit into Encoder.Seq,
	TruncatedTokens int                   // and by how many tokens together
	Empty           []int                 // rows from which nothing is learned: no answer, or a prompt that alone fills Encoder.Seq
	Uncertified     []dataset.Uncertified // rows that are in Examples, if they are not empty, although no certificate vouches for them

	Tokens  int    // of Examples together
	Targets int    // how many of them are learned
	MaxID   int32  // the largest of them: a model must have more embeddings than that
	SHA256  string // of the ids and labels of all Examples, in hex
}

// batch is how many conversations are read and then encoded together.
const batch = 2048

// Load reads and encodes a whole data set, on as many threads as GOMAXPROCS allows; the result does not depend on how many.
// Spec and o are those of [OpenConversations]. Where the certificates that gen wrote stand beside its output, the rows
// that they do not vouch for are named in the result. It is an error if nothing is left to train on.
func Load(ctx context.Context, spec string, o dataset.Options, e *Encoder) (*Set, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	source, err := dataset.OpenConversations(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	s := &Set{Name: source.Name, Revision: source.Revision, Format: source.Format}
	tooLong := 0 // of the empty rows
	for end := false; !end; {
		conversations := make([]dataset.Conversation, 0, batch)
		for len(conversations) < batch && !end {
			c, err := source.Next()
			if end = err == io.EOF; end {
				break
			}
			if err != nil {
				return nil, err
			}
			conversations = append(conversations, c)
		}
		examples, cuts, err := e.encodeAll(ctx, conversations)
		if err != nil {
			return nil, fmt.Errorf("training: %s: %w", s.Name, err)
		}
		for i, ex := range examples {
			s.Rows++
			switch {
			case len(ex.IDs) > 0:
				s.Examples = append(s.Examples, ex)
				if cuts[i] > 0 {
					s.Truncated++
					s.TruncatedTokens += cuts[i]
				}
				continue
			case cuts[i] > 0:
				tooLong++
			}
			s.Empty = append(s.Empty, ex.Row)
		}
	}
	if len(s.Examples) == 0 {
		return nil, fmt.Errorf("training: %s: nothing is left to train on: of %d rows %d have no answer, and in %d the question alone "+
			"takes the %d tokens of an example: look at --columns, or raise --seq", s.Name, s.Rows, s.Rows-tooLong, tooLong, e.Seq)
	}
	if s.Uncertified, err = source.Uncertified(ctx); err != nil {
		return nil, err
	}
	s.count()
	return s, nil
}

// encodeAll encodes conversations on all threads. Of several errors it is the first row's.
func (e *Encoder) encodeAll(ctx context.Context, conversations []dataset.Conversation) (examples []Example, cuts []int, err error) {
	examples, cuts = make([]Example, len(conversations)), make([]int, len(conversations))
	errs := make([]error, len(conversations))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(conversations)) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(conversations) {
					return
				}
				examples[i], cuts[i], errs[i] = e.encode(conversations[i])
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", conversations[i].Row, err)
		}
	}
	return examples, cuts, nil
}

// count fills in what follows from the examples.
func (s *Set) count() {
	h := sha256.New()
	var b []byte
	for _, ex := range s.Examples {
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(len(ex.IDs)))
		for i, id := range ex.IDs {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
			b = binary.LittleEndian.AppendUint32(b, uint32(ex.Labels[i]))
			s.MaxID = max(s.MaxID, id)
		}
		h.Write(b)
		s.Tokens += len(ex.IDs)
		s.Targets += ex.Targets()
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
}

// Join is a set of several: their rows are counted on from one to the next. Of one set it is that set.
func Join(sets ...*Set) *Set {
	if len(sets) == 1 {
		return sets[0]
	}
	all := &Set{}
	h := sha256.New()
	var names, formats []string
	for _, s := range sets {
		for _, e := range s.Examples {
			e.Row += all.Rows
			all.Examples = append(all.Examples, e)
		}
		for _, row := range s.Empty {
			all.Empty = append(all.Empty, all.Rows+row)
		}
		for _, u := range s.Uncertified {
			all.Uncertified = append(all.Uncertified, dataset.Uncertified{Row: all.Rows + u.Row, Why: u.Why})
		}
		names = append(names, s.Name)
		if !slices.Contains(formats, s.Format) {
			formats = append(formats, s.Format)
		}
		all.Rows += s.Rows
		all.Truncated += s.Truncated
		all.TruncatedTokens += s.TruncatedTokens
		all.Tokens += s.Tokens
		all.Targets += s.Targets
		all.MaxID = max(all.MaxID, s.MaxID)
		fmt.Fprintln(h, s.SHA256)
	}
	all.Name, all.Format = strings.Join(names, " and "), strings.Join(formats, "; ")
	all.SHA256 = hex.EncodeToString(h.Sum(nil))
	return all
}
