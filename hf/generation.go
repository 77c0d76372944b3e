package hf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// GenerationConfig is a generation_config.json: how the model's authors want it to be sampled.
type GenerationConfig struct {
	BOS []int32 // tokens at the start of a prompt
	EOS []int32 // tokens that end an answer
	// DoSample is false for greedy decoding; then Temperature to MinP have no effect.
	DoSample    bool
	Temperature float64 // default 1
	TopK        int     // default 50, as in transformers; 0 for off
	TopP        float64 // default 1, which is off
	MinP        float64 // default 0, which is off

	// The rest applies to every answer, including greedy ones.

	RepetitionPenalty float64   // default 1, which is off
	NoRepeatNGram     int       // no sequence of this many tokens occurs twice (no_repeat_ngram_size); 0 for off
	Forbidden         [][]int32 // sequences that an answer does not contain (bad_words_ids)
	Suppressed        []int32   // tokens that an answer does not contain (suppress_tokens)
	SuppressedFirst   []int32   // tokens that an answer does not start with (begin_suppress_tokens)
	MinNew, MinTokens int       // fewest tokens before an end, without and with the prompt (min_new_tokens, min_length)
	NotApplied        []string  // settings that change transformers' answers, but none here
}

// ParseGenerationConfig reads a generation_config.json. Absent and null keys have the defaults of transformers'
// generate; 0 turns top_k off, and so does every negative number, as for other programs. A value that cannot be read
// has its default as well, and the error names it: the result can still be used.
func ParseGenerationConfig(data []byte) (GenerationConfig, error) {
	o := &settingsReader{object: parseObject(data)}
	o.note()
	g := GenerationConfig{}
	take(o, &g.BOS, nil, func() []int32 { return o.ids("bos_token_id", nil) })
	take(o, &g.EOS, nil, func() []int32 { return o.ids("eos_token_id", nil) })
	take(o, &g.DoSample, false, func() bool { return optional(o.object, "do_sample", false) })
	number := func(to *float64, key string, absent, lo, hi float64) {
		take(o, to, absent, func() float64 { return o.within(key, absent, lo, hi) })
	}
	whole := func(to *int, key string, absent, lo float64) {
		var v float64
		number(&v, key, absent, lo, math.MaxFloat64)
		*to = int(min(v, math.MaxInt32))
	}
	number(&g.Temperature, "temperature", 1, 0, math.MaxFloat64)
	whole(&g.TopK, "top_k", 50, -math.MaxFloat64)
	g.TopK = max(g.TopK, 0)
	number(&g.TopP, "top_p", 1, 0, 1)
	number(&g.MinP, "min_p", 0, 0, 1)
	number(&g.RepetitionPenalty, "repetition_penalty", 1, 1e-6, math.MaxFloat64)
	whole(&g.NoRepeatNGram, "no_repeat_ngram_size", 0, 0)
	whole(&g.MinNew, "min_new_tokens", 0, 0)
	whole(&g.MinTokens, "min_length", 0, 0)
	take(o, &g.Forbidden, nil, func() [][]int32 { return optional(o.object, "bad_words_ids", [][]int32(nil)) })
	take(o, &g.Suppressed, nil, func() []int32 { return o.ids("suppress_tokens", nil) })
	take(o, &g.SuppressedFirst, nil, func() []int32 { return o.ids("begin_suppress_tokens", nil) })
	g.NotApplied = o.notApplied()
	if o.wrong != nil {
		return g, fmt.Errorf("generation_config.json: %s", strings.Join(o.wrong, "; "))
	}
	return g, nil
}

// settingsReader reads settings, some of which may be wrong.
type settingsReader struct {
	*object
	wrong []string
}

// note records what was wrong, if anything, and continues.
func (o *settingsReader) note() (wrong bool) {
	if o.err == nil {
		return false
	}
	o.wrong, o.err = append(o.wrong, o.err.Error()), nil
	return true
}

// take sets a setting to what get returns, or to absent if get fails.
func take[T any](o *settingsReader, to *T, absent T, get func() T) {
	if *to = get(); o.note() {
		*to = absent
	}
}

// notApplied lists the settings that are not off and that change transformers' answers but none here.
func (o *object) notApplied() (list []string) {
	for _, setting := range []struct{ key, off string }{
		{"num_beams", "1"}, {"penalty_alpha", "0"}, {"guidance_scale", "1"}, {"encoder_repetition_penalty", "1"},
		{"encoder_no_repeat_ngram_size", "0"}, {"typical_p", "1"}, {"top_h", "1"}, {"epsilon_cutoff", "0"},
		{"eta_cutoff", "0"}, {"sequence_bias", ""}, {"exponential_decay_length_penalty", ""}, {"forced_bos_token_id", ""},
		{"forced_eos_token_id", ""}, {"forced_decoder_ids", ""}, {"force_words_ids", ""}, {"constraints", ""},
		{"watermarking_config", ""}, {"stop_strings", ""}, {"dola_layers", ""},
	} {
		value := string(o.keys[setting.key])
		if o.has(setting.key) && !slices.Contains([]string{setting.off, setting.off + ".0", "[]", "{}", "false"}, value) {
			list = append(list, fmt.Sprintf("%s %.40s", setting.key, value))
		}
	}
	return list
}

// within reads a number from lo to hi.
func (o *object) within(key string, absent, lo, hi float64) float64 {
	v := optional(o, key, absent)
	switch {
	case v < lo && hi == math.MaxFloat64:
		o.fail("%s is %v: it must be at least %v", key, v, lo)
	case v < lo || v > hi:
		o.fail("%s is %v: it must be from %v to %v", key, v, lo, hi)
	}
	return v
}

// TokenizerConfig is the part of a tokenizer_config.json that tokenizer.json lacks.
type TokenizerConfig struct {
	// ChatTemplate is the Jinja source, "" if there is none. If there are several named ones, it is the one named
	// "default".
	ChatTemplate string
	// ChatTemplates are all templates by their names, such as "default", "tool_use" and "rag", if they have names.
	ChatTemplates map[string]string
	// BOS and EOS are the values of bos_token and eos_token in templates, "" if there are none.
	BOS, EOS string
	// Tokens are the other tokens that templates know, by their names: unk_token, pad_token, image_token …
	Tokens map[string]string
}

// ParseTokenizerConfig reads a tokenizer_config.json. If a value cannot be read, the error names it, and the others can
// be used nevertheless.
func ParseTokenizerConfig(data []byte) (TokenizerConfig, error) {
	o := parseObject(data)
	c := TokenizerConfig{BOS: o.token("bos_token"), EOS: o.token("eos_token"), Tokens: tokens(o.keys, nil)}
	c.ChatTemplate, c.ChatTemplates = o.templates("chat_template")
	if o.err != nil {
		return c, fmt.Errorf("tokenizer_config.json: %w", o.err)
	}
	return c, nil
}

// tokens returns the tokens under keys that end in _token, and the ones in extra_special_tokens, as transformers
// gives them to templates: special_tokens_map.json (special) replaces tokenizer_config.json, except for a string
// under a name of the model's own, and extra ones replace both.
func tokens(config, special map[string]json.RawMessage) map[string]string {
	found := map[string]json.RawMessage{}
	for _, keys := range []map[string]json.RawMessage{config, special} {
		for key, raw := range keys {
			own := !slices.Contains([]string{"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}, key)
			if strings.HasSuffix(key, "_token") && key != "bos_token" && key != "eos_token" &&
				(!own || !bytes.HasPrefix(found[key], []byte(`"`))) {
				found[key] = raw
			}
		}
	}
	for _, keys := range []map[string]json.RawMessage{config, special} {
		var extra map[string]json.RawMessage
		_ = json.Unmarshal(keys["extra_special_tokens"], &extra) // which may be a list of tokens without names
		maps.Copy(found, extra)
	}
	var named map[string]string
	for key, raw := range found {
		var text string
		var t struct{ Content *string }
		if json.Unmarshal(raw, &t) == nil && t.Content != nil {
			text = *t.Content
		} else if json.Unmarshal(raw, &text) != nil || text == "" {
			continue // null, or a switch such as add_bos_token
		}
		if named == nil {
			named = map[string]string{}
		}
		named[key] = text
	}
	return named
}

// take replaces tokens by the ones in special_tokens_map.json.
func (c *TokenizerConfig) take(config, special *object) {
	for key, to := range map[string]*string{"bos_token": &c.BOS, "eos_token": &c.EOS} {
		if _, named := special.keys[key]; named {
			*to = special.token(key)
		}
	}
	c.Tokens = tokens(config.keys, special.keys)
}

// templates reads a template, or named templates: a list of objects, or an object.
func (o *object) templates(key string) (text string, named map[string]string) {
	var list []struct{ Name, Template string }
	if !o.has(key) {
		return "", nil
	}
	if json.Unmarshal(o.keys[key], &named) == nil {
		return named[DefaultTemplate], named
	}
	if json.Unmarshal(o.keys[key], &list) != nil {
		return optional(o, key, ""), nil
	}
	named = map[string]string{}
	for _, t := range list {
		named[t.Name] = t.Template
	}
	text = named[DefaultTemplate]
	return text, named
}

// DefaultTemplate is the name of the chat template that is used unless another is named.
const DefaultTemplate = "default"

// Template returns the chat template of that name. A model whose template has no name has only a default one.
func (c TokenizerConfig) Template(name string) (text string, ok bool) {
	if name == DefaultTemplate && c.ChatTemplate != "" {
		return c.ChatTemplate, true
	}
	text, ok = c.ChatTemplates[name]
	return text, ok
}

// token reads the text of a token, which may be inside an object with its other properties.
func (o *object) token(key string) string {
	var t struct{ Content *string }
	if !o.has(key) || json.Unmarshal(o.keys[key], &t) != nil || t.Content == nil {
		return optional(o, key, "")
	}
	return *t.Content
}
