package lora

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

const (
	q0   = "model.layers.0.self_attn.q_proj"
	k1   = "model.layers.1.self_attn.k_proj"
	q1   = "model.layers.1.self_attn.q_proj"
	q10  = "model.layers.10.self_attn.q_proj"
	down = "model.layers.1.mlp.down_proj"
	w1   = "model.layers.2.mlp.experts.1.w1"
)

// TestOf compares rank and scale with the rules of PEFT's get_pattern_key and check_target_module_exists.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		spec, module string
		rank         int // 0: no adapter
		scale        float64
	}{
		{"", q0, 16, 2},
		{"none", q0, 0, 0},
		{"", "lm_head", 0, 0},
		{"", "model.embed_tokens", 0, 0},
		{"targets=lm_head", "lm_head", 16, 2},
		{"r=3,alpha=5", down, 3, 5.0 / 3},
		{"r=4,alpha=8,rslora", down, 4, 4},
		{"targets=q_proj+k_proj", q0, 16, 2},
		{"targets=q_proj+k_proj", down, 0, 0},
		{"targets=proj", q0, 0, 0}, // an end, but not after a dot
		{"targets=self_attn.q_proj", q1, 16, 2},
		{"targets=" + q1, q1, 16, 2},
		{`match="model\\.layers\\.(0|1)\\..*q_proj"`, q1, 16, 2},
		{`match="model\\.layers\\.(0|1)\\..*q_proj"`, q10, 0, 0},
		{`match=q_proj`, q1, 0, 0}, // must match the whole name
		{`match="(?:a|model).*"`, q1, 16, 2},
		{"exclude=q_proj", q0, 0, 0},
		{`unmatch="model.layers.0.*"`, q0, 0, 0},
		{`unmatch="model.layers.0.*"`, q1, 16, 2},
		{"also=self_attn", q0, 0, 0}, // is trained whole
		{"also=attn", q0, 16, 2},
		{"layers=1", q1, 16, 2},
		{"layers=1", q10, 0, 0},
		{"layers=1", "lm.q_proj", 0, 0},
		{"layers=1", w1, 0, 0}, // the first index is the layer's
		{"layers=2+1", w1, 16, 2},
		{"layers=0,targets=" + q1, q1, 16, 2}, // as PEFT does it: a whole name counts in any layer
		{"r=4,alpha=8,r:down_proj=2,r:proj=7", down, 2, 4},
		{"r=4,alpha=8,r:.*proj=7,r:down_proj=2", down, 7, 8.0 / 7}, // the first match
		{"r=4,alpha=8,r:proj=7", down, 4, 2},
		{`r=4,alpha=8,r:"^model.layers.1.self_attn.q_proj"=6`, q1, 6, 8.0 / 6},
		{`r=4,alpha=8,r:^layers.1.self_attn.q_proj=6`, q1, 4, 2},
		{"r=4,alpha=8,alpha:layers.1.self_attn.k_proj=3", k1, 4, 0.75},
		{"r=4,alpha=8,rslora,alpha:q_proj|k_proj=3,r:k_proj=9", k1, 9, 1},
	} {
		s, err := Parse(c.spec)
		if err != nil {
			t.Error(err)
			continue
		}
		rank, scale, ok := s.Of(c.module)
		if rank != c.rank || math.Abs(scale-c.scale) > 1e-15*c.scale || ok != (c.rank > 0) {
			t.Errorf("%s of %s: rank %d, scale %v, %v; want %d, %v", c.spec, c.module, rank, scale, ok, c.rank, c.scale)
		}
	}
}

// TestIdle names the parts of a Spec that match no linear layer of a model.
func TestIdle(t *testing.T) {
	for _, c := range []struct{ spec, idle string }{
		{"", ""},
		{"exclude=k_proj,layers=0+10+1,r:down_proj|q_proj=3", ""},
		{"exclude=q_proj+p_proj+v_proj", "exclude=p_proj"},
		{"exclude=self_attn", "exclude=self_attn"}, // it has linear layers, but is not one
		{"unmatch=.*q_proj", ""},
		{"unmatch=q_proj", "unmatch=q_proj"},
		{"targets=q_proj,layers=1+2", "layers=2"},
		{"r:down=4", "r:down=4"},
		{"alpha:down_proj=4,alpha:x=1", "alpha:x=1"},
		{"exclude=q_proj,r:q_proj=4", "r:q_proj=4"},
	} {
		s, err := Parse(c.spec)
		expect.OK(t, err)
		if idle := s.Idle([]string{q0, k1, q1, q10, down}); idle != c.idle {
			t.Errorf("%s: %q is idle: want %q", c.spec, idle, c.idle)
		}
	}
}

func TestWhole(t *testing.T) {
	s := Spec{Also: []string{"lm_head", "embed_tokens"}}
	for param, want := range map[string]bool{"lm_head.weight": true, "model.embed_tokens.weight": true,
		"head.weight":       false,
		"model.norm.weight": false, "lm_head": false, "": false} {
		if s.Whole(param) != want {
			t.Errorf("%q: %v", param, !want)
		}
	}
}

// TestString_ParseReadsItBack checks that every kind of field survives.
func TestString_ParseReadsItBack(t *testing.T) {
	for _, s := range []Spec{
		{},
		Default(),
		{Rank: 3, Alpha: 0.1, RSLoRA: true, Dropout: 0.05, Targets: Targets{Names: []string{"q_proj", "all-linear"}},
			Exclude: Targets{Names: []string{"a b", "c+d"}}, Layers: []int{5, 0}, Also: []string{"lm_head", `"`},
			Ranks: []Pattern{{"z", 3}, {"a=1,b:2", 1}}, Alphas: []Pattern{{"^x", 0.25}, {"é\n", 2}}},
		{Rank: 1, Alpha: 1, Targets: Targets{Match: `model\.layers\.\d+.*(q|k)_proj`}, Exclude: Targets{Match: "a,b"}},
	} {
		got, err := Parse(s.String())
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", s, err, diff)
		}
	}
	const text = "r=8,alpha=16,targets=q_proj+v_proj,rslora,dropout=0.05"
	if s, err := Parse(" r = 8, alpha =16,targets=q_proj + v_proj,rslora ,dropout=0.05"); err != nil ||
		s.String() != text {
		t.Errorf("%s, %v", s, err)
	}
}

// TestSpecWith_KeepsWhatTextDoesNotName changes a Spec that has all kinds of values.
func TestSpecWith_KeepsWhatTextDoesNotName(t *testing.T) {
	const text = "r=3,alpha=5,targets=q_proj,exclude=k_proj,rslora,dropout=0.1,layers=1,r:a=2,alpha:b=4,also=norm"
	s, err := Parse(text)
	expect.OK(t, err)
	for _, c := range []struct{ text, was, is string }{
		{"", "", ""},
		{"r=4", "r=3", "r=4"},
		{"targets=v_proj,dropout=0", "targets=q_proj,exclude=k_proj,rslora,dropout=0.1",
			"targets=v_proj,exclude=k_proj,rslora"},
		{"r:c=7,r:a=1", "r:a=2", "r:c=7,r:a=1"},
		{"alpha:c=7", "alpha:b=4", "alpha:c=7"},
		{"none", text, none},
	} {
		if got, err := s.With(c.text); err != nil || got.String() != strings.Replace(text, c.was, c.is, 1) {
			t.Errorf("with %q: %s, %v", c.text, got, err)
		}
	}
}

var refused = []struct{ text, want string }{
	{"r", "r has no value"}, {"r=", "expected a word"}, {"r=x", "not a whole number"}, {"r=0", "rank 0"},
	{"r=65537", "rank 65537"}, {"alpha=0", "alpha 0"}, {"alpha=Inf", "alpha +Inf"}, {"alpha=NaN", "alpha NaN"},
	{"dropout=1", "dropout 1"}, {"dropout=-1", "dropout -1"}, {"dropout=NaN", "dropout NaN"}, {"rank=4", "must be one of"},
	{"r=4;alpha=8", "not a whole number"}, {"r=4 alpha=8", "expected a comma"}, {"rslora=1", "expected a comma"},
	{"exclude=all-linear", "none would have an adapter"}, {"targets=", "expected a word"}, {`targets="`, "does not end"},
	{`match=".*\.q_proj"`, "each backslash is written twice"}, {`match="a\"`, "does not end"},
	{"targets=q_proj,v_proj", "modules have + between them"},
	{`targets=""`, "empty name"}, {`also=""`, "empty name"}, {"layers=-1", "layer -1"},
	{"match=a,layers=1", "put the layers into the expression"},
	{"match=(?!a)b", "look-around and back-references are not supported"}, {`match=(a)\1`, "look-around"},
	{"match=)(", "unexpected )"}, {`match="a{,3}"`, `"{,"`}, {"match=[[:alpha:]]", "expected a comma"},
	{`unmatch="[[:alpha:]]"`, `"[:"`}, {"r:(=4", "missing closing )"}, {"r:a=0", "rank 0 of"}, {"r:a=1.5", "rank 1.5 of"},
	{"alpha:a=-1", "alpha -1 of"}, {"r:a=1,r:a=2", "rank of \"a\" is there twice"}, {`match=a\z`, `"\\z"`},
	{"layers=0" + strings.Repeat("+0", 4096), "a list of 4097"},
	{"match=" + strings.Repeat("a", 1001), "1001 bytes"}, {"r:a=1" + strings.Repeat(",r:a=1", 1000), "1001 patterns"},
	{"targets:a=1", "must be one of"},
}

func TestParse_RefusesByName(t *testing.T) {
	for _, c := range refused {
		if s, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.text, s, err, c.want)
		}
	}
	for _, s := range []Spec{{Alpha: 1, RSLoRA: true}, {Rank: 1, Alpha: 1}} { // what Parse cannot give
		if s.Validate() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// FuzzParse checks that every accepted Spec is valid and is read back as it was.
func FuzzParse(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(`r=8,alpha=16,targets=q_proj+v_proj,rslora,r:"^a"=3,layers=1+2`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Spec
		var err error
		// In a regular expression, 7 bytes, such as a{1000}, make a thousand instructions.
		hostile.Within(t, hostile.Linear(len(data))+len(data)<<16, func() { s, err = Parse(string(data)) })
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := Parse(s.String())
		if diff := cmp.Diff(s, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		s.Of(q0)
	})
}
