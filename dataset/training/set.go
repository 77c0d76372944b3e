package training

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"restyle/dataset"
)

// A Set is a dataset as examples to train on.
type Set struct {
	Examples []Example // those with targets, in the order of the rows

	Name, Revision, Format string // as of dataset.Conversations
	Files                  []string
	// Used lists the columns that were used besides the ones in Format, and Unused the columns and the keys of messages
	// that were not.
	Used, Unused []string

	Rows   int // rows that were read
	Masked int // answers that are context and no targets, because the row says so
	Asides int // parts of other answers, likewise
	Asked  int // messages that the row says are to be learned, although they are no answers
	// Apart is the number of rows that became one example for each answer, and AnswersApart the number of these examples:
	// the template writes earlier answers in another way once there are later messages.
	Apart, AnswersApart int
	// Typed lists the rows in which a special token, of this model or another, is written out, and TypedToken is the first
	// one. It is its characters there, not the token.
	Typed      []int
	TypedToken string
	// LeftOut lists the rows with a message that the template leaves out, and LeftOutRole has the role of the first.
	LeftOut     []int
	LeftOutRole string
	// Quoted lists the rows whose calls have arguments as a text, which the template wrote in quotes: most want an object.
	Quoted []int

	Truncated       int   // Examples that were truncated to Encoder.Seq tokens,
	TruncatedTokens int   // and the tokens that they lost
	Empty           []int // rows without targets: there is no answer, or the prompt by itself takes Encoder.Seq tokens
	Uncertified     []dataset.Uncertified

	Tokens  int    // of all Examples
	Targets int    // target tokens of all Examples
	MaxID   int32  // the largest token id: the model must have more embeddings
	SHA256  string // of the ids and labels of all Examples, in hex

	joined []origin // what Join made it of, in order
}

// origin is a dataset of a joined set.
type origin struct {
	name string
	rows int
}

// Place names a row by its number, for people: "5", or "2 of b.json" in a set that [Join] made.
func (s *Set) Place(row int) string {
	for _, o := range s.joined {
		if row < o.rows {
			return fmt.Sprintf("%d of %s", row, o.name)
		}
		row -= o.rows
	}
	return strconv.Itoa(row)
}

// encodeChunk is the number of conversations that Load reads and then encodes in parallel.
const encodeChunk = 2048

// Load reads and encodes a whole dataset, on as many threads as GOMAXPROCS allows. The result does not depend on their
// number. spec and o are as for [dataset.OpenConversations]. If gen's certificates are next to its output, the result
// lists the rows that they do not vouch for. It is an error if no example has targets.
func Load(ctx context.Context, spec string, o dataset.Options, e *Encoder) (*Set, error) {
	if err := e.checkSeq(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	source, err := dataset.OpenConversations(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if err := e.check(source.Text); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	s := &Set{Name: source.Name, Revision: source.Revision, Format: source.Format, Files: source.Files()}
	typed := e.typed()
	tooLong := 0 // of the empty rows
	read := map[string]bool{}
	chunk := encodeChunk
	if e.Enough > 0 {
		chunk = min(chunk, e.Enough)
	}
	for end := false; !end; end = end || e.Enough > 0 && len(s.Examples) >= e.Enough {
		conversations := make([]dataset.Conversation, 0, chunk)
		for len(conversations) < chunk && !end {
			c, err := source.Next()
			if end = err == io.EOF; end {
				break
			}
			if err != nil {
				return nil, err
			}
			conversations = append(conversations, c)
		}
		rows, err := e.encodeAll(ctx, conversations)
		if err != nil {
			return nil, fmt.Errorf("training: %s: %w", s.Name, err)
		}
		for i, r := range rows {
			s.add(conversations[i].Row, r)
			for _, key := range r.read {
				read[key] = true
			}
			if token := typed(&conversations[i]); token != "" {
				s.Typed, s.TypedToken = append(s.Typed, conversations[i].Row), cmp.Or(s.TypedToken, token)
			}
			if r.tooLong && len(r.examples) == 0 {
				tooLong++
			}
		}
	}
	if len(s.Examples) == 0 {
		return nil, s.nothingLeft(tooLong, e.Seq)
	}
	s.Used, s.Unused, s.Asked = source.Used(), source.Unused(), source.Asked()
	for _, key := range source.Keys() {
		if !read[key] && !slices.Contains(s.Unused, key) {
			s.Unused = append(s.Unused, key)
		}
	}
	if s.Uncertified, err = source.Uncertified(ctx); err != nil {
		return nil, err
	}
	s.count()
	return s, nil
}

// foreignTokens end turns and texts, or begin them, in the templates of many models. Data that was rendered for another
// model has them. "</s>" is not among them, because it is HTML, but no text ends with it unless a tool added it.
var foreignTokens = []string{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>",
	"<|end_of_text|>", "<|begin_of_text|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "[INST]", "[/INST]",
	"<start_of_turn>", "<end_of_turn>"}

// typed returns a function that returns a special token that is written out in a conversation, or "".
func (e *Encoder) typed() func(c *dataset.Conversation) string {
	var tokens []string
	for _, id := range e.Tokenizer.SpecialIDs() {
		if token := e.Tokenizer.Token(id); token != "" {
			tokens = append(tokens, token)
		}
	}
	for _, token := range foreignTokens {
		if _, own := e.Tokenizer.TokenID(token); !own {
			tokens = append(tokens, token)
		}
	}
	starts := ""
	for _, token := range tokens {
		first, _ := utf8.DecodeRuneInString(token)
		starts += string(first)
	}
	return func(c *dataset.Conversation) string {
		texts := []string{c.Text}
		for _, m := range c.Messages {
			texts = append(texts, m.Content, m.Thoughts)
		}
		for _, text := range texts {
			if strings.HasSuffix(strings.TrimSpace(text), "</s>") {
				return "</s>"
			}
			if !strings.ContainsAny(text, starts) {
				continue
			}
			for _, token := range tokens {
				if strings.Contains(text, token) {
					return token
				}
			}
		}
		return ""
	}
}

// add adds what a row became.
func (s *Set) add(number int, r row) {
	s.Rows++
	s.Masked += r.masked
	s.Asides += r.asides
	if r.quoted {
		s.Quoted = append(s.Quoted, number)
	}
	if r.leftOut != "" {
		s.LeftOut, s.LeftOutRole = append(s.LeftOut, number), cmp.Or(s.LeftOutRole, r.leftOut)
	}
	s.Examples = append(s.Examples, r.examples...)
	for _, tokens := range r.truncated {
		if tokens > 0 {
			s.Truncated++
			s.TruncatedTokens += tokens
		}
	}
	if r.apart {
		s.Apart++
		s.AnswersApart += len(r.examples)
	}
	if len(r.examples) == 0 {
		s.Empty = append(s.Empty, number)
	}
}

// nothingLeft returns the error for a set without targets. In tooLong of its rows the question by itself takes seq
// tokens; the others have no answer.
func (s *Set) nothingLeft(tooLong, seq int) error {
	setting, why := "columns", fmt.Sprintf("no row has an answer (rows: %d): name the column of the answers", s.Rows)
	switch {
	case tooLong > 0:
		setting, why = "seq", fmt.Sprintf("the question alone takes all tokens of seq %d (rows: %d of %d), and the other "+
			"rows have no answer: raise seq", seq, tooLong, s.Rows)
	case s.Masked > 0:
		why = fmt.Sprintf("the rows say of all %d answers that they are not to be learned (rows: %d)", s.Masked, s.Rows)
	}
	err := fmt.Errorf("training: %s: nothing is left to train on: %s", s.Name, why)
	return &dataset.SettingError{Name: setting, Err: err}
}

// encodeAll encodes conversations on all threads. If several fail, it returns the error of the first row.
func (e *Encoder) encodeAll(ctx context.Context, conversations []dataset.Conversation) ([]row, error) {
	rows, errs := make([]row, len(conversations)), make([]error, len(conversations))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(conversations)) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(conversations) {
					return
				}
				rows[i], errs[i] = e.row(conversations[i])
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", conversations[i].Row, err)
		}
	}
	return rows, nil
}

// count sets the fields that follow from the examples.
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

// Join returns one set of all examples. It numbers the rows of each set after the rows of the set before. Given one
// set, it returns that set.
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
		for _, rows := range []struct{ of, to *[]int }{
			{&s.Empty, &all.Empty}, {&s.Typed, &all.Typed}, {&s.Quoted, &all.Quoted}, {&s.LeftOut, &all.LeftOut},
		} {
			for _, row := range *rows.of {
				*rows.to = append(*rows.to, all.Rows+row)
			}
		}
		all.TypedToken = cmp.Or(all.TypedToken, s.TypedToken)
		all.LeftOutRole = cmp.Or(all.LeftOutRole, s.LeftOutRole)
		for _, u := range s.Uncertified {
			all.Uncertified = append(all.Uncertified, dataset.Uncertified{Row: all.Rows + u.Row, Why: u.Why})
		}
		names = append(names, s.Name)
		all.joined = append(all.joined, origin{s.Name, s.Rows})
		if !slices.Contains(formats, s.Format) {
			formats = append(formats, s.Format)
		}
		all.Files = append(all.Files, s.Files...)
		all.Rows += s.Rows
		all.Masked += s.Masked
		all.Asides += s.Asides
		all.Asked += s.Asked
		all.Apart += s.Apart
		all.AnswersApart += s.AnswersApart
		all.Truncated += s.Truncated
		all.TruncatedTokens += s.TruncatedTokens
		all.Tokens += s.Tokens
		all.Targets += s.Targets
		all.MaxID = max(all.MaxID, s.MaxID)
		fmt.Fprintln(h, s.SHA256)
	}
	all.Used, all.Unused = merged(sets, func(s *Set) []string { return s.Used }), merged(sets,
		func(s *Set) []string { return s.Unused })
	all.Name, all.Format = strings.Join(names, " and "), strings.Join(formats, "; ")
	all.SHA256 = hex.EncodeToString(h.Sum(nil))
	return all
}

// merged returns what the sets list, each once, with the name of a set if the others do not list it.
func merged(sets []*Set, of func(*Set) []string) (all []string) {
	in := map[string]int{}
	for _, s := range sets {
		for _, name := range of(s) {
			in[name]++
		}
	}
	for _, s := range sets {
		for _, name := range of(s) {
			if in[name] < len(sets) {
				name += " of " + s.Name
			}
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}
