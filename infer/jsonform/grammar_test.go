package jsonform

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/infer"
	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/tokenizer"
)

func vocabulary(t testing.TB, path string) *Vocabulary {
	t.Helper()
	tok, err := tokenizer.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVocabulary(tok, tok.SpecialIDs()[:1])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func starter(t testing.TB) *Vocabulary {
	return vocabulary(t, "../../data/starter-llama/tokenizer.json")
}

func schemas(t testing.TB) []expect.Case {
	return expect.Cases(t, "testdata/schemas.txt", "schema", "fits", "not", "error")
}

// allowed returns the tokens that a constraint allows.
func allowed(v *Vocabulary, c infer.Constraint) (ids []int32) {
	logits := make([]float32, v.tokenizer.MaxID()+10)
	c.Mask(logits)
	for id, x := range logits {
		if !math.IsInf(float64(x), -1) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

func TestCompile(t *testing.T) {
	v := starter(t)
	for _, c := range schemas(t) {
		g, err := Compile([]byte(c.Get("schema")), v, Around{})
		if words := c.Get("error"); words != "" {
			expect.Error(t, err, words)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for _, doc := range c.All("fits") {
			if err := g.Check(doc); err != nil {
				t.Errorf("%s: %s: %v", c.Name, doc, err)
			}
		}
		for _, doc := range c.All("not") {
			if g.Check(doc) == nil {
				t.Errorf("%s: %s fits", c.Name, doc)
			}
		}
	}
}

// TestMask_AllowsTheTokensOfDocuments encodes documents as the tokenizer does, and lets them end only where they do.
func TestMask_AllowsTheTokensOfDocuments(t *testing.T) {
	v := starter(t)
	for _, c := range schemas(t) {
		if c.Get("error") != "" {
			continue
		}
		g, err := Compile([]byte(c.Get("schema")), v, Around{})
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range c.All("fits") {
			constraint := g.New()
			at := 0
			for _, id := range append(v.tokenizer.Encode(doc, tokenizer.EncodeOptions{}).IDs, v.ends[0]) {
				ids := allowed(v, constraint)
				if !slices.Contains(ids, id) {
					t.Fatalf("%s: %s: after %d bytes, token %q is masked", c.Name, doc, at, v.tokenizer.Token(id))
				}
				if ends := slices.Contains(ids, v.ends[0]); ends != (g.Check(doc[:at]) == nil) {
					t.Errorf("%s: %s: ends after %d bytes: %v", c.Name, doc, at, ends)
				}
				if id == v.ends[0] {
					break
				}
				if err := constraint.Accept(id); err != nil {
					t.Fatalf("%s: %s: %v", c.Name, doc, err)
				}
				at += len(v.tokenizer.Bytes(id))
			}
		}
	}
}

// TestMask_EveryWalkEndsInTheSchema draws tokens at random, after a while only such as close something, and compares
// the documents with the schema by other means.
func TestMask_EveryWalkEndsInTheSchema(t *testing.T) {
	for _, v := range []*Vocabulary{starter(t), vocabulary(t, "../../tokenizer/testdata/fallback.json")} {
		for _, c := range schemas(t) {
			if c.Get("error") != "" {
				continue
			}
			g, err := Compile([]byte(c.Get("schema")), v, Around{})
			if err != nil {
				t.Fatal(err)
			}
			var schema any
			if err := json.Unmarshal([]byte(c.Get("schema")), &schema); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(10) {
				doc := walk(t, g, seed)
				var value any
				if err := json.Unmarshal([]byte(doc), &value); err != nil {
					t.Errorf("%s: %q: %v", c.Name, doc, err)
				} else if why := mismatch(schema, schema, value); why != "" {
					t.Errorf("%s: %q: %s", c.Name, doc, why)
				}
			}
		}
	}
}

// walk returns a random document.
func walk(t *testing.T, g *Grammar, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 2))
	v := g.vocabulary
	c := g.New()
	var doc []byte
	for n := range 1000 {
		ids := allowed(v, c)
		if len(ids) == 0 {
			t.Fatalf("after %q nothing may come", doc)
		}
		id := ids[r.IntN(len(ids))]
		if r.IntN(4) == 0 || n >= 40 && n%2 == 0 {
			inside := !c.(*constraint).at.top.border
			id = slices.MaxFunc(ids, func(a, b int32) int { return closing(v, a, inside) - closing(v, b, inside) })
		}
		if id == v.ends[0] {
			return string(doc)
		}
		if err := c.Accept(id); err != nil {
			t.Fatalf("after %q: %v", doc, err)
		}
		doc = append(doc, v.tokenizer.Bytes(id)...)
	}
	t.Fatalf("%q… %q has no end", doc[:100], doc[len(doc)-200:])
	return ""
}

// closing returns a greater number for tokens that end more.
func closing(v *Vocabulary, id int32, inside bool) int {
	switch text := string(v.text(id)); {
	case text == "":
		return 4
	case text == `"` && inside:
		return 3
	case text == "}" || text == "]":
		return 2
	case text == ":" || text == "1" || text == `"`:
		return 1
	default:
		return -len(text)
	}
}

func TestCompile_WithTextsAround(t *testing.T) {
	v := starter(t)
	special := v.tokenizer.Token(v.tokenizer.SpecialIDs()[1])
	for _, c := range []struct{ before, after, doc string }{
		{"<call>\n", "\n</call>", "<call>\n{\"a\": 1}\n</call>"},
		{special, "", "[]"},
		{special + "\n", "\n" + special, "1"},
		{"x", "", "x 1"},
	} {
		g, err := Compile([]byte("{}"), v, v.Around(c.before, c.after))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Check(c.doc); err != nil {
			t.Errorf("%s: %v", c.doc, err)
		}
		if g.Check(c.doc[1:]) == nil {
			t.Errorf("%s fits without its first byte", c.doc)
		}
		ids := allowed(v, g.New())
		if strings.HasPrefix(c.before, special) && !slices.Equal(ids, v.tokenizer.SpecialIDs()[1:2]) {
			t.Errorf("%q may begin with %v", c.before, ids)
		}
	}
}

// after returns the constraint of an answer that starts with a text.
func after(t testing.TB, g *Grammar, text string) *constraint {
	t.Helper()
	c := g.New().(*constraint)
	for i := range len(text) {
		if !g.machine.next(&c.at, text[i]) {
			t.Fatalf("%q: byte %d does not fit", text, i)
		}
	}
	return c
}

// TestMask_DoesNotDependOnOtherAnswers compares the masks of a grammar that other answers have filled with what they
// found out, and of new ones.
func TestMask_DoesNotDependOnOtherAnswers(t *testing.T) {
	v := starter(t)
	// A schema whose masks have to leave tokens out, because there are too many alternatives.
	schema := []byte(`{"properties": {"a": {"pattern": "^[ab ]*a[a-c ]{900}"}}, "required": ["a"]}`)
	warm, err := Compile(schema, v, Around{})
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{`{"a": "`, `{"a": "a`, `{"a": "` + strings.Repeat("a", 850), `{"a": "bbb`} {
		cold, err := Compile(schema, v, Around{})
		if err != nil {
			t.Fatal(err)
		}
		var ids [2][]int32
		for i, g := range []*Grammar{warm, cold} {
			ids[i] = allowed(v, after(t, g, doc))
		}
		if !slices.Equal(ids[0], ids[1]) || len(ids[0]) == 0 {
			t.Errorf("%s: %d tokens after other answers, %d alone", doc, len(ids[0]), len(ids[1]))
		}
	}
}

// TestMask_OfLimitedStrings compares the masks of a string with limits to the masks of a string without, and near its
// limits to what may come there.
func TestMask_OfLimitedStrings(t *testing.T) {
	v := starter(t)
	limited, err := Compile([]byte(`{"type": "string", "minLength": 100, "maxLength": 1000}`), v, Around{})
	if err != nil {
		t.Fatal(err)
	}
	free, err := Compile([]byte(`{"type": "string"}`), v, Around{})
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{0, 20, 50, 95, 99, 100, 500, 930, 990, 999, 1000} {
		text := `"` + strings.Repeat("x", length)
		got := allowed(v, after(t, limited, text))
		var want []int32
		for _, id := range allowed(v, after(t, free, text)) {
			more, closes := strings.CutSuffix(string(v.text(id)), `"`)
			n := length + utf8.RuneCountInString(more)
			if strings.Contains(more, `\`) || !utf8.ValidString(more) {
				continue // a character that spans tokens
			}
			if n <= 1000 && (!closes || n >= 100) {
				want = append(want, id)
			}
		}
		got = slices.DeleteFunc(got, func(id int32) bool {
			return strings.Contains(string(v.text(id)), `\`) || !utf8.Valid(v.text(id))
		})
		if !slices.Equal(got, want) {
			t.Errorf("after %d characters %d tokens may come, want %d", length, len(got), len(want))
		}
	}
}

// TestMask_OfCostlySchemas checks that an answer fails after too many masks that take long, whatever others have left
// in caches, that it may go on with cheap ones, and that what an answer that has ended leaves half done is not kept.
func TestMask_OfCostlySchemas(t *testing.T) {
	g, err := Compile([]byte(`{"properties":{"a":{"pattern":"^(?:[a-z]?){1000}$"}}}`), starter(t), Around{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(before string) *constraint {
		c := after(t, g, before)
		c.ready, c.spent = false, maxSpent
		return c
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	left := at(`{"a": "b`)
	if left.Prepare(gone); left.ready {
		t.Error("prepared although it has ended")
	}
	var all [2][]int32
	for i, before := range []string{`{"a": "b`, `{"a": "b`, `{"a"`} {
		c := at(before)
		ids := allowed(g.vocabulary, c)
		if i < 2 {
			all[i] = ids
		}
		if err := c.Accept(ids[0]); errors.Is(err, ErrCostly) != (i < 2) {
			t.Errorf("%d, after %s: %v, having spent %d", i, before, err, c.spent-maxSpent)
		}
	}
	if !slices.Equal(all[0], all[1]) || !slices.Equal(all[0], allowed(g.vocabulary, left)) {
		t.Error("other tokens with what is known")
	}
}

// TestAccept_WaitsForNoOtherMask lets an answer take a token while the mask of another one with the same schema waits
// for a costly one of another schema. A new schema does not wait either.
func TestAccept_WaitsForNoOtherMask(t *testing.T) {
	v := starter(t)
	g, err := Compile([]byte(`{"properties":{"a":{"pattern":"^(?:[a-z]?){1000}$"}}}`), v, Around{})
	if err != nil {
		t.Fatal(err)
	}
	c, other := after(t, g, `{"a": "b`), after(t, g, `{"a": "bc`)
	ids := allowed(v, c)
	v.slow.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		other.Prepare(t.Context())
	}()
	for g.mu.TryLock() { // until other has started
		g.mu.Unlock()
		runtime.Gosched()
	}
	if err := c.Accept(ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := Compile([]byte(`{"type": "object"}`), v, Around{}); err != nil {
		t.Error(err)
	}
	if g.mu.TryLock() {
		t.Error("the other mask was not held")
		g.mu.Unlock()
	}
	v.slow.Unlock()
	<-done
	if err := other.Accept(v.ends[0]); err == nil {
		t.Error("an end inside a string is accepted")
	}
}

// FuzzCompile compiles schemas of any kind, and walks a few tokens. What fits must be JSON.
func FuzzCompile(f *testing.F) {
	for _, c := range schemas(f) {
		f.Add(c.Get("schema"), append(c.All("fits"), "")[0], uint64(1))
	}
	for _, text := range hostile.Wide() {
		f.Add(text, text, uint64(2))
		f.Add(`{"enum":[`+text+`]}`, text, uint64(2))
		f.Add(`{"pattern":"`+text[:min(len(text), 1000)]+`"}`, text, uint64(2))
	}
	v := starter(f)
	f.Fuzz(func(t *testing.T, schema, doc string, seed uint64) {
		var g *Grammar
		var err error
		hostile.Within(t, 96<<20, func() { g, err = Compile([]byte(schema), v, Around{}) }) // see maxSize
		if err != nil {
			return
		}
		if g.Check(doc) == nil && !json.Valid([]byte(doc)) {
			t.Errorf("%q fits %s", doc, schema)
		}
		r := rand.New(rand.NewPCG(seed, 3))
		c := g.New()
		for range 8 {
			ids := allowed(v, c)
			if len(ids) == 0 {
				t.Fatalf("%s: nothing may come", schema)
			}
			id := ids[r.IntN(len(ids))]
			if id == v.ends[0] {
				return
			}
			if err := c.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	v := vocabulary(b, expect.Reference(b, "golden/tokenizer/llama3/tokenizer.json"))
	logits := make([]float32, 128256)
	for _, c := range []struct{ name, schema, before string }{
		{"start", `{"type":"object"}`, ``},
		{"string", `{"type":"object"}`, `{"a": "b`},
		{"inner string", `{"type":"object"}`, `{"a": {"b": [[{"b": "b`},
		{"value", `{"type":"object"}`, `{"a":`},
		{"key", `{"type":"object"}`, `{"a`},
		{"number", `{"type":"object"}`, `{"a": 12`},
		{"after", `{"type":"object"}`, `{"a": [12]`},
		{"limited", `{"properties":{"a":{"type":"string","maxLength":1000}}}`, `{"a": "b`},
		{"pattern", `{"properties":{"a":{"pattern":"^[a-z ]+$"}}}`, `{"a": "b`},
		{"email", `{"properties":{"a":{"format":"email"}}}`, `{"a": "b`},
		{"names", `{"properties":{"alpha":{},"beta":{},"gamma":{"enum":["one","two","three"]}}}`, `{"`},
	} {
		g, err := Compile([]byte(c.schema), v, Around{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/first", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				g, err := Compile([]byte(c.schema), v, Around{})
				if err != nil {
					b.Fatal(err)
				}
				at := after(b, g, c.before)
				b.StartTimer()
				at.Mask(logits)
			}
		})
		b.Run(c.name+"/again", func(b *testing.B) {
			at := after(b, g, c.before)
			at.Mask(logits)
			for b.Loop() {
				at.Mask(logits)
			}
		})
	}
}
