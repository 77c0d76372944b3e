package jsonform

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"restyle/tokenizer"
)

func starter(t testing.TB) *Vocabulary { return vocabulary(t, "../../data/starter-llama/tokenizer.json") }

func vocabulary(t testing.TB, path string) *Vocabulary {
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

func TestScratch(t *testing.T) {
	v := starter(t)
	g, err := AnyObject(v)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := g.New()
		var ids []int32
		logits := make([]float32, v.tokenizer.MaxID()+1)
		for range 200 {
			for i := range logits {
				logits[i] = r.Float32()
			}
			c.Mask(logits)
			best := int32(0)
			for i, l := range logits {
				if l > logits[best] {
					best = int32(i)
				}
			}
			if logits[best] < 0 {
				t.Fatal("dead", v.tokenizer.Decode(ids, true))
			}
			if best == v.ends[0] {
				break
			}
			if err := c.Accept(best); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, best)
		}
		t.Logf("%s", v.tokenizer.Decode(ids, true))
	}
}

func BenchmarkMask(b *testing.B) {
	v := vocabulary(b, filepath.Join(os.Getenv("RESTYLE_REFERENCE"), "golden/tokenizer/llama3/tokenizer.json"))
	b.Log(len(v.nodes), v.depth)
	logits := make([]float32, 128256)
	for _, c := range []struct{ name, schema, before string }{
		{"start", `{"type":"object"}`, ``},
		{"string", `{"type":"object"}`, `{"a": "b`},
		{"deep string", `{"type":"object"}`, `{"a": {"b": [[{"b": "b`},
		{"value", `{"type":"object"}`, `{"a":`},
		{"key", `{"type":"object"}`, `{"a`},
		{"number", `{"type":"object"}`, `{"a": 12`},
		{"after", `{"type":"object"}`, `{"a": [12]`},
		{"limited", `{"type":"object","properties":{"a":{"type":"string","maxLength":1000}}}`, `{"a": "b`},
		{"pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z ]+$"}}}`, `{"a": "b`},
		{"format", `{"type":"object","properties":{"a":{"type":"string","format":"email"}}}`, `{"a": "b`},
		{"names", `{"type":"object","properties":{"alpha":{},"beta":{},"gamma":{"enum":["one","two","three"]}}}`, `{"`},
	} {
		g, err := Compile([]byte(c.schema), v, Around{})
		if err != nil {
			b.Fatal(err)
		}
		at := config{top: g.start}
		for i := range len(c.before) {
			if !g.machine.next(&at, c.before[i]) {
				b.Fatal(c.before, i)
			}
		}
		b.Run(c.name+"/first", func(b *testing.B) {
			for b.Loop() {
				g.machine.forget()
				at.top.mask = nil
				(&constraint{g: g, at: at}).Mask(logits)
			}
		})
		b.Run(c.name+"/again", func(b *testing.B) {
			for b.Loop() {
				(&constraint{g: g, at: at}).Mask(logits)
			}
		})
	}
}
