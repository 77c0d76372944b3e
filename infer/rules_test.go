package infer

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/hf"
)

// TestGenerationRules checks the tokens of greedy answers under the rules of a generation_config.json. The model would
// choose 9, 9, 9 … and has 8, 7 … as its next choices.
func TestGenerationRules(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		o     Sampling
		want  []int32
	}{
		{Rules{}, Sampling{}, []int32{9, 9, 9, 9}},
		{Rules{RepetitionPenalty: 1.15}, Sampling{}, []int32{9, 8, 9, 9}}, // 9/1.15 < 8 < 9, 7 < 8/1.15 < 9/1.15
		{Rules{RepetitionPenalty: 1.15}, Sampling{RepetitionPenalty: 1}, []int32{9, 9, 9, 9}},
		{Rules{NoRepeatNGram: 1}, Sampling{}, []int32{9, 8, 7, 4}}, // 5 and 6 are in the prompt
		{Rules{NoRepeatNGram: 2}, Sampling{}, []int32{9, 9, 8, 9}},
		{Rules{NoRepeatNGram: 9}, Sampling{}, []int32{9, 9, 9, 9}},
		{Rules{Forbidden: [][]int32{{9, 9}, {5, 6, 9}, {8}, {}, {1 << 20}, {-1}}}, Sampling{}, []int32{7, 9, 7, 9}},
		{Rules{Forbidden: [][]int32{{5, 6, 5, 6, 9}}}, Sampling{}, []int32{9, 9, 9, 9}}, // longer than what is there
		{Rules{Suppressed: []int32{9, 400}, SuppressedFirst: []int32{8}}, Sampling{}, []int32{7, 8, 8, 8}},
	} {
		e := (&script{t: t}).engine(20)
		e.extend = func([]int32) ([]float32, error) {
			logits := make([]float32, scriptVocab)
			for i := range 10 {
				logits[i] = float32(i)
			}
			return logits, nil
		}
		e.greedy = func([]int32) (int32, []float32, error) { return 9, nil, nil }
		e.Rules = c.rules
		g, err := e.Start([]int32{5, 6}, Options{Sampling: c.o, MaxTokens: 4})
		if err != nil {
			t.Fatal(err)
		}
		for g.Next(t.Context()) {
		}
		if got := g.Result().IDs; !slices.Equal(got, c.want) || g.Err() != nil {
			t.Errorf("%+v, %+v: %v, %v; want %v", c.rules, c.o, got, g.Err(), c.want)
		}
	}
	// No end before this many tokens, though the model would choose it; a token that ends answers is not a forbidden
	// word.
	for _, r := range []Rules{{MinNew: 2}, {MinTokens: 4}, {MinNew: 2, Forbidden: [][]int32{{1}}}} {
		m := &script{t: t, prompt: 2, tokens: []int32{1, 1, 1}}
		e := m.engine(20)
		e.Rules = r
		g, err := e.Start([]int32{5, 6}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for g.Next(t.Context()) {
		}
		if res := g.Result(); res.Reason != Stopped || len(res.IDs) != 2 {
			t.Errorf("%+v: %+v, %v", r, res, g.Err())
		}
	}
}

// TestAddedTokens checks that tokens which are only in tokenizer_config.json are the model's, that one without an
// embedding is an error only if it occurs, and that answers have the penalty that the model's authors want.
func TestAddedTokens(t *testing.T) {
	c := withTokens(t, "<|endoftext|>", "<|im_end|>")
	files := map[string][]byte{"config.json": c.ConfigJSON,
		"tokenizer_config.json": []byte(`{"added_tokens_decoder":{"320":{"content":"<|user|>","special":true}},
			"pad_token":"[PAD]","chat_template":"{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|im_end|>"}`),
		"generation_config.json": []byte(`{"repetition_penalty":2,"top_k":-1,"eos_token_id":[2,999]}`)}
	var err error
	if files["tokenizer.json"], err = c.ReadFile("tokenizer.json"); err != nil {
		t.Fatal(err)
	}
	for rows, missing := range map[int]string{320: `token "<|user|>" has the id 320`, 321: ""} {
		config := strings.Replace(string(c.ConfigJSON), `"vocab_size": 320`, `"vocab_size": `+strconv.Itoa(rows), 1)
		files["config.json"] = []byte(config)
		if c, err = hf.NewModel(files); err != nil {
			t.Fatal(err)
		}
		codec, err := CodecOf(c, "")
		if err != nil {
			t.Fatal(err)
		}
		if codec.Rules.RepetitionPenalty != 2 || !slices.Contains(codec.Ends, 2) || codec.Tokenizer.MaxID() != 321 {
			t.Errorf("%+v, ends %v, ids to %d", codec.Rules, codec.Ends, codec.Tokenizer.MaxID())
		}
		e := (&script{t: t}).engine(50)
		e.Tokenizer, e.Template, e.vocabulary = codec.Tokenizer, codec.Template, codec.vocabulary(rows)
		p, err := e.Prompt([]chat.Message{{Role: "user", Content: "x[PAD]"}}, 1)
		if err != nil || p.IDs[0] != 320 || slices.Contains(p.IDs, 321) { // what a user types is no special token
			t.Errorf("%v, %v", p.IDs, err)
		}
		if _, err := e.Start(p.IDs, Options{}); missing == "" && err != nil ||
			missing != "" && (err == nil || !strings.Contains(err.Error(), missing)) {
			t.Errorf("%d embeddings: %v, want %q", rows, err, missing)
		}
	}
}
