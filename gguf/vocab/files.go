package vocab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type object = map[string]any

// added is an added token of tokenizer.json.
type added struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// Files returns the files of Hugging Face that say the same: tokenizer.json, tokenizer_config.json with the chat
// templates, and generation_config.json with the tokens that end an answer (see Ends). If the file has a whole
// tokenizer.json, Files compares its tokens and returns it. Control tokens become special added tokens, and
// user-defined ones added tokens that are not special.
//
// It is an error if the lists do not fit each other, if ids are out of range, if a merge names an unknown token, or
// if Model or Pre cannot be expressed exactly.
func (v Vocab) Files() (map[string][]byte, error) {
	ids, err := v.read()
	if err != nil {
		return nil, err
	}
	types, _ := v.kinds()
	var out bytes.Buffer
	var tokens []added
	if v.HuggingFace != "" {
		out.WriteString(v.HuggingFace)
		tokens, err = v.compare()
		for i, t := range tokens {
			tokens[i].Special = t.Special || types[t.ID] == Control
		}
	} else {
		for id, kind := range types {
			if kind == Unknown || kind == Control || kind == UserDefined {
				tokens = append(tokens, added{ID: id, Content: v.Tokens[id], Special: kind != UserDefined})
			}
		}
		err = v.write(&out, ids, tokens)
	}
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"tokenizer.json": out.Bytes(), "generation_config.json": v.generation()}
	files["tokenizer_config.json"], err = v.config(tokens)
	return files, err
}

// write writes tokenizer.json.
func (v *Vocab) write(out *bytes.Buffer, ids map[string]int, tokens []added) (err error) {
	var l layout
	if v.Model == "llama" {
		l, err = v.sentencePiece(ids)
	} else {
		l, err = v.byteLevel(ids)
	}
	if err != nil {
		return err
	}
	if l.postProcessor, err = v.postProcessor(l.addBOS); err != nil {
		return err
	}
	w := writer{out}
	w.text(`{"version": "1.0", "truncation": null, "padding": null, "added_tokens": `)
	w.list("[", "]", len(tokens), func(i int) { w.value(tokens[i]) })
	for _, part := range []struct {
		name  string
		value any
	}{{"normalizer", l.normalizer}, {"pre_tokenizer", l.preTokenizer}, {"post_processor", l.postProcessor},
		{"decoder", l.decoder}} {
		w.text(",\n\"" + part.name + "\": ")
		w.value(part.value)
	}
	w.text(",\n\"model\": {\"type\": \"BPE\"")
	for _, name := range slices.Sorted(maps.Keys(l.model)) {
		w.text(", \"" + name + "\": ")
		w.value(l.model[name])
	}
	w.text(",\n\"vocab\": ")
	w.list("{", "}", len(v.Tokens), func(id int) {
		w.value(v.Tokens[id])
		w.text(": " + strconv.Itoa(id))
	})
	w.text(",\n\"merges\": ")
	w.list("[", "]", len(l.merges), func(i int) { w.value(l.merges[i]) })
	w.text("}}\n")
	return nil
}

// A layout holds what differs between the kinds of tokenizers.
type layout struct {
	normalizer, preTokenizer, postProcessor, decoder any // nil for none
	model                                            object
	merges                                           []string
	addBOS                                           bool // unless the file says otherwise
}

// writer writes JSON.
type writer struct{ *bytes.Buffer }

func (w writer) text(s string) { w.WriteString(s) }

func (w writer) value(v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)         // texts, numbers, lists and maps
	w.Truncate(w.Len() - 1) // remove the line end
}

func (w writer) list(open, end string, n int, each func(i int)) {
	w.text(open)
	for i := range n {
		if i > 0 {
			w.text(",\n")
		}
		each(i)
	}
	w.text(end)
}

// byteLevel returns the layout for "gpt2".
func (v *Vocab) byteLevel(ids map[string]int) (layout, error) {
	p, err := preNamed(v.Pre)
	if err != nil {
		return layout{}, err
	}
	if len(v.Merges) == 0 {
		return layout{}, errors.New("tokenizer.ggml.merges is missing or empty: text would stay single bytes")
	}
	seen := make(map[[2]int]bool, len(v.Merges))
	for i, m := range v.Merges {
		left, right, _ := strings.Cut(m, " ")
		l, ok1 := ids[left]
		r, ok2 := ids[right]
		_, ok3 := ids[left+right]
		switch {
		case strings.Count(m, " ") != 1 || left == "" || right == "":
			return layout{}, fmt.Errorf("merge %d, %q, is not two tokens with one space between them", i, m)
		case !ok1 || !ok2 || !ok3:
			return layout{}, fmt.Errorf("merge %d, %q: the two and what they make must be tokens", i, m)
		case seen[[2]int{l, r}]:
			return layout{}, fmt.Errorf("merge %d, %q, is there twice", i, m)
		}
		seen[[2]int{l, r}] = true
	}
	var steps []object
	for _, pattern := range p.splits {
		steps = append(steps, splitStep(pattern))
	}
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	return layout{
		preTokenizer: object{"type": "Sequence", "pretokenizers": append(steps, bytes)},
		decoder:      bytes,
		model: object{"dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": p.ignoreMerges},
		merges: v.Merges,
		addBOS: p.addBOS,
	}, nil
}

func splitStep(pattern string) object {
	if pattern == digit {
		return object{"type": "Digits", "individual_digits": true}
	}
	return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}
}

// postProcessor returns what puts BOS before a text and EOS after it, or nil if neither is wanted.
func (v *Vocab) postProcessor(addBOS bool) (any, error) {
	special, texts := object{}, [2][]object{}
	put := func(id int, key string) error {
		if id < 0 {
			return fmt.Errorf("tokenizer.ggml.add_%s_token is true, but there is no %s_token_id", key, key)
		}
		token := v.text(id)
		special[token] = object{"id": token, "ids": []int{id}, "tokens": []string{token}}
		for i := range texts {
			texts[i] = append(texts[i], object{"SpecialToken": object{"id": token, "type_id": i}})
		}
		return nil
	}
	if on(v.AddBOS, addBOS) {
		if err := put(v.BOS, "bos"); err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"A", "B"} {
		texts[i] = append(texts[i], object{"Sequence": object{"id": name, "type_id": i}})
	}
	if on(v.AddEOS, false) {
		if err := put(v.EOS, "eos"); err != nil {
			return nil, err
		}
	}
	if len(special) == 0 {
		return nil, nil
	}
	return object{"type": "TemplateProcessing", "single": texts[0], "pair": slices.Concat(texts[0], texts[1]),
		"special_tokens": special}, nil
}

// config returns tokenizer_config.json.
func (v *Vocab) config(tokens []added) ([]byte, error) {
	c := object{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}
	for key, id := range map[string]int{"bos_token": v.BOS, "eos_token": v.EOS, "pad_token": v.Pad,
		"unk_token": v.Unknown} {
		if id >= 0 {
			c[key] = v.text(id)
		}
	}
	for key, s := range map[string]*bool{"add_bos_token": v.AddBOS, "add_eos_token": v.AddEOS} {
		if s != nil {
			c[key] = *s
		}
	}
	listed := object{}
	for _, t := range tokens {
		listed[strconv.Itoa(t.ID)] = object{"content": t.Content, "single_word": t.SingleWord, "lstrip": t.LStrip,
			"rstrip": t.RStrip, "normalized": t.Normalized, "special": t.Special}
	}
	if len(listed) > 0 {
		c["added_tokens_decoder"] = listed
	}
	switch {
	case len(v.Templates) > 0:
		var list []object
		if v.Template != "" {
			list = append(list, object{"name": "default", "template": v.Template})
		}
		for _, name := range slices.Sorted(maps.Keys(v.Templates)) {
			if name != "default" || v.Template == "" {
				list = append(list, object{"name": name, "template": v.Templates[name]})
			}
		}
		c["chat_template"] = list
	case v.Template != "":
		c["chat_template"] = v.Template
	}
	return json.MarshalIndent(c, "", " ")
}

// generation returns generation_config.json.
func (v *Vocab) generation() []byte {
	c := object{}
	for key, id := range map[string]int{"bos_token_id": v.BOS, "pad_token_id": v.Pad} {
		if id >= 0 {
			c[key] = id
		}
	}
	if ends := v.Ends(); len(ends) > 0 {
		c["eos_token_id"] = ends
	}
	data, _ := json.MarshalIndent(c, "", " ") // numbers
	return data
}

// compare checks that the whole tokenizer.json and the file have the same tokens, and returns its added tokens.
func (v *Vocab) compare() ([]added, error) {
	const key = "tokenizer.huggingface.json"
	var whole struct {
		Added []added `json:"added_tokens"`
		Model struct{ Vocab map[string]int }
	}
	if err := json.Unmarshal([]byte(v.HuggingFace), &whole); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	has := make([]bool, len(v.Tokens))
	check := func(text string, id int) error {
		if id < 0 || id >= len(v.Tokens) || v.Tokens[id] != text {
			found := "none"
			if id >= 0 && id < len(v.Tokens) {
				found = strconv.Quote(v.Tokens[id])
			}
			return fmt.Errorf("%s has the token %d, %q, and tokenizer.ggml.tokens has %s there: the file contradicts itself",
				key, id, text, found)
		}
		has[id] = true
		return nil
	}
	for _, text := range slices.Sorted(maps.Keys(whole.Model.Vocab)) {
		if err := check(text, whole.Model.Vocab[text]); err != nil {
			return nil, err
		}
	}
	for _, t := range whole.Added {
		if err := check(t.Content, t.ID); err != nil {
			return nil, err
		}
	}
	for id, there := range has {
		if !there && v.Types[id] != Unused {
			return nil, fmt.Errorf("%s lacks the token %d, %q, of tokenizer.ggml.tokens: the file contradicts itself", key,
				id, v.Tokens[id])
		}
	}
	return whole.Added, nil
}
