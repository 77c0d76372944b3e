package infer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// script is a model that answers from a list: after the prompt come these tokens, and then token 0 forever. It keeps
// what it has read, as a cache does.
type script struct {
	t      *testing.T
	prompt int
	tokens []int32
	held   []int32
	read   int // all tokens that were read
	fail   error
	broken bool // the logits are NaN
}

const scriptVocab = 256

func (m *script) engine(capacity int) *Engine {
	return &Engine{
		Context: capacity, vocabulary: vocabulary{size: scriptVocab, ends: map[int32]bool{1: true}},
		chunk: 512,
		extend: func(ids []int32) ([]float32, error) {
			if m.fail != nil {
				return nil, m.fail
			}
			m.held = append(m.held, ids...)
			m.read += len(ids)
			if len(m.held) > capacity {
				m.t.Errorf("%d tokens in a cache of %d", len(m.held), capacity)
			}
			logits := make([]float32, scriptVocab)
			if m.broken {
				logits[3] = float32(math.NaN())
			}
			next := int32(0)
			if i := len(m.held) - m.prompt; i >= 0 && i < len(m.tokens) {
				next = m.tokens[i]
			}
			logits[next] = 10
			return logits, nil
		},
		trim: func(n int) { m.held = m.held[:n] },
	}
}

// withBytes gives an engine a tokenizer whose tokens are bytes.
func withBytes(e *Engine) *Engine {
	e.stream = func() (func(int32) string, func() string) {
		var held []byte
		return func(id int32) string {
				held = append(held, byte(id))
				if strings.ToValidUTF8(string(held), "") != string(held) {
					return ""
				}
				text := string(held)
				held = nil
				return text
			}, func() string {
				if len(held) == 0 {
					return ""
				}
				return "\uFFFD"
			}
	}
	return e
}

func bytesOf(s string) (ids []int32) {
	for _, b := range []byte(s) {
		ids = append(ids, int32(b))
	}
	return ids
}

// collect runs a generation to its end.
func collect(ctx context.Context, g *Generation) (text string, pieces []string) {
	for g.Next(ctx) {
		pieces = append(pieces, g.Text())
		text += g.Text()
	}
	return text, pieces
}

func TestGenerate(t *testing.T) {
	const end = "\x01"
	for _, c := range []struct {
		name    string
		script  string
		o       Options
		context int
		text    string
		reason  Reason
		tokens  int
	}{
		{"the model ends it", "hello" + end, Options{}, 100, "hello", Stopped, 5},
		{"at once", end, Options{}, 100, "", Stopped, 0},
		{"cut", "hello" + end, Options{MaxTokens: 3}, 100, "hel", Length, 3},
		{"just long enough", "hello" + end, Options{MaxTokens: 5}, 100, "hello", Length, 5},
		{"one token", "hello" + end, Options{MaxTokens: 1}, 100, "h", Length, 1},
		{"context", "hello" + end, Options{}, 6, "hell", Full, 4},
		{"context of one more", "hello" + end, Options{}, 4, "he", Full, 2},
		{"stop string", "hello world" + end, Options{Stop: []string{"o w"}}, 100, "hell", Stopped, 7},
		{"first of two", "hello world" + end, Options{Stop: []string{"world", "lo"}}, 100, "hel", Stopped, 5},
		{"only its beginning, then the end", "hello wo" + end, Options{Stop: []string{"world"}}, 100, "hello wo", Stopped, 8},
		{"only its beginning, then the cut", "hello wo" + end, Options{Stop: []string{"world"}, MaxTokens: 8}, 100,
			"hello wo", Length, 8},
		{"characters", "é世🙂" + end, Options{}, 100, "é世🙂", Stopped, 9},
		{"cut inside of a character", "é世" + end, Options{MaxTokens: 3}, 100, "é\uFFFD", Length, 3},
		{"on behind the end", "a" + end + "b", Options{IgnoreEnd: true, MaxTokens: 3}, 100, "a\x01b", Length, 3},
	} {
		m := &script{t: t, prompt: 3, tokens: bytesOf(c.script)}
		g, err := withBytes(m.engine(c.context)).Start([]int32{7, 8, 9}, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, _ := collect(t.Context(), g)
		r := g.Result()
		if g.Err() != nil || text != c.text || r.Reason != c.reason || len(r.IDs) != c.tokens || r.Prompt != 3 {
			t.Errorf("%s: %q, %v tokens, %s, %v; want %q, %d tokens, %s", c.name, text, len(r.IDs), r.Reason, g.Err(), c.text,
				c.tokens, c.reason)
		}
		if g.Next(t.Context()) || g.Text() != "" {
			t.Errorf("%s: it goes on after its end", c.name)
		}
		if r.First <= 0 || r.Total < r.First {
			t.Errorf("%s: first token after %v of %v", c.name, r.First, r.Total)
		}
	}
}

func TestSpeed(t *testing.T) {
	for want, r := range map[float64]Result{
		// Four tokens came in the two seconds after the first.
		2: {IDs: make([]int32, 5), First: time.Second, Total: 3 * time.Second},
		0: {IDs: make([]int32, 1), First: time.Second, Total: 3 * time.Second},
	} {
		if got := r.Speed(); got != want {
			t.Errorf("%+v: %v tokens a second, want %v", r, got, want)
		}
	}
}

func TestNoPieceSplitsACharacter(t *testing.T) {
	m := &script{t: t, prompt: 1, tokens: bytesOf("aé世🙂b\x01")}
	g, err := withBytes(m.engine(100)).Start([]int32{9}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, pieces := collect(t.Context(), g)
	want := []string{"a", "", "é", "", "", "世", "", "", "", "🙂", "b"}
	if !slices.Equal(pieces, want) {
		t.Errorf("pieces %q, want %q", pieces, want)
	}
}

func TestPrefixIsReused(t *testing.T) {
	m := &script{t: t, prompt: 4, tokens: bytesOf("ab\x01")}
	e := m.engine(100)
	ask := func(prompt ...int32) Result {
		t.Helper()
		m.prompt, m.read = len(prompt), 0
		g, err := e.Start(prompt, Options{})
		if err != nil {
			t.Fatal(err)
		}
		collect(t.Context(), g)
		if g.Err() != nil {
			t.Fatal(g.Err())
		}
		if r := g.Result(); m.read != r.Prompt-r.Reused+len(r.IDs) {
			t.Errorf("read %d tokens for a prompt of %d, %d reused, and %d answered", m.read, r.Prompt, r.Reused, len(r.IDs))
		}
		if !slices.Equal(m.held[:len(prompt)], prompt) {
			t.Errorf("the cache begins with %v, the prompt is %v", m.held, prompt)
		}
		return g.Result()
	}
	for _, c := range []struct {
		name   string
		prompt []int32
		reused int
	}{
		{"first", []int32{5, 6, 7, 8}, 0},
		{"the same: its last token is read again", []int32{5, 6, 7, 8}, 3},
		{"with the answer and a question behind it", []int32{5, 6, 7, 8, 'a', 'b', 30, 31}, 6},
		{"shorter", []int32{5, 6, 7}, 2},
		{"other", []int32{9, 6, 7}, 0},
		{"one token", []int32{9}, 0},
	} {
		if r := ask(c.prompt...); r.Reused != c.reused {
			t.Errorf("%s: %d tokens reused, want %d", c.name, r.Reused, c.reused)
		}
	}
}

func TestLongPromptsAreReadInChunks(t *testing.T) {
	m := &script{t: t, prompt: 1300, tokens: bytesOf("x\x01")}
	e := m.engine(2000)
	var sizes []int
	extend := e.extend
	e.extend = func(ids []int32) ([]float32, error) {
		sizes = append(sizes, len(ids))
		return extend(ids)
	}
	g, err := e.Start(make([]int32, 1300), Options{MaxTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	collect(t.Context(), g)
	if want := []int{512, 512, 276, 1}; !slices.Equal(sizes, want) {
		t.Errorf("read %v at a time, want %v", sizes, want)
	}
	// A cancel takes effect between two chunks.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.ResetCache()
	e.extend = func(ids []int32) ([]float32, error) {
		cancel()
		return extend(ids)
	}
	if g, err = e.Start(make([]int32, 1300), Options{}); err != nil {
		t.Fatal(err)
	}
	collect(ctx, g)
	if r := g.Result(); r.Reason != Cancelled || g.Err() != nil || len(m.held) != 512 {
		t.Errorf("%q, %v, %d tokens read", r.Reason, g.Err(), len(m.held))
	}
}

func TestCancelKeepsTheAnswer(t *testing.T) {
	m := &script{t: t, prompt: 1, tokens: bytesOf("hello world\x01")}
	g, err := withBytes(m.engine(100)).Start([]int32{9}, Options{Stop: []string{"lot"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := ""
	for g.Next(ctx) {
		text += g.Text()
		if len(g.Result().IDs) == 5 {
			cancel() // while "lo" is held back
		}
	}
	if r := g.Result(); text != "hello" || r.Reason != Cancelled || g.Err() != nil {
		t.Errorf("%q, %s, %v", text, r.Reason, g.Err())
	}
}

func TestGenerateErrors(t *testing.T) {
	ids := make([]int32, 10)
	for _, c := range []struct {
		name   string
		prompt []int32
		o      Options
		says   string
	}{
		{"no prompt", nil, Options{}, "empty"},
		{"long prompt", ids, Options{}, "the prompt of 10 tokens leaves no room for an answer in the context of 10"},
		{"foreign token", []int32{3, 256}, Options{}, "token 1 of the prompt is 256, outside the vocabulary of 256"},
		{"negative token", []int32{-1}, Options{}, "token 0 of the prompt is -1"},
		{"negative length", []int32{3}, Options{MaxTokens: -1}, "MaxTokens -1"},
		{"temperature", []int32{3}, Options{Sampling: Sampling{Temperature: -1}}, "temperature -1"},
		{"empty stop", []int32{3}, Options{Stop: []string{"a", ""}}, "a stop string is empty"},
	} {
		_, err := withBytes((&script{t: t}).engine(10)).Start(c.prompt, c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.says)
		}
	}
	if _, err := (&script{t: t}).engine(10).Start([]int32{3}, Options{Stop: []string{"a"}}); err == nil {
		t.Error("a stop string without a tokenizer was taken")
	}

	m := &script{t: t, prompt: 1, fail: errors.New("device lost")}
	e := m.engine(10)
	e.cached, m.held = []int32{3, 4}, []int32{3, 4}
	g, err := e.Start([]int32{3, 4, 5}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if g.Next(t.Context()) || !errors.Is(g.Err(), m.fail) || !strings.Contains(fmt.Sprint(g.Err()), "after token 2") {
		t.Errorf("a failing model: %v", g.Err())
	}
	if len(e.cached) != 0 || len(m.held) != 0 {
		t.Error("what the cache holds after an error is not known, so it has to be emptied")
	}

	m = &script{t: t, prompt: 1, broken: true}
	if g, err = m.engine(10).Start([]int32{3}, Options{}); err != nil {
		t.Fatal(err)
	}
	if g.Next(t.Context()) || g.Err() == nil || !strings.Contains(g.Err().Error(), "token 3 is NaN") {
		t.Errorf("NaN: %v", g.Err())
	}
}

func TestOneAnswerAtATime(t *testing.T) {
	m := &script{t: t, prompt: 1, tokens: bytesOf("hello\x01")}
	e := m.engine(10)
	first, err := e.Start([]int32{3}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start([]int32{3}, Options{}); err != nil {
		t.Fatal(err)
	}
	if first.Next(t.Context()) || first.Err() == nil {
		t.Error("two answers share one cache")
	}
}
