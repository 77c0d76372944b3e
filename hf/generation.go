package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
)

// GenerationConfig is a generation_config.json: how the model's authors want it to be sampled.
type GenerationConfig struct {
	BOS []int32 // tokens at the start of a prompt
	EOS []int32 // tokens that end an answer
	// DoSample is false for greedy decoding; then the other settings have no effect.
	DoSample          bool
	Temperature       float64 // default 1
	TopK              int     // default 50, as in transformers; 0 for off
	TopP              float64 // default 1, which is off
	MinP              float64 // default 0, which is off
	RepetitionPenalty float64 // default 1, which is off
}

// ParseGenerationConfig reads a generation_config.json. Absent and null keys have the defaults of transformers'
// generate.
func ParseGenerationConfig(data []byte) (GenerationConfig, error) {
	o := parseObject(data)
	g := GenerationConfig{
		BOS:               o.ids("bos_token_id", nil),
		EOS:               o.ids("eos_token_id", nil),
		DoSample:          optional(o, "do_sample", false),
		Temperature:       o.within("temperature", 1, 0, math.MaxFloat64),
		TopK:              int(o.within("top_k", 50, 0, math.MaxInt32)),
		TopP:              o.within("top_p", 1, 0, 1),
		MinP:              o.within("min_p", 0, 0, 1),
		RepetitionPenalty: o.within("repetition_penalty", 1, 1e-6, math.MaxFloat64),
	}
	if o.err != nil {
		return GenerationConfig{}, fmt.Errorf("generation_config.json: %w", o.err)
	}
	return g, nil
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
	// ChatTemplate is the Jinja source, "" if there is none. Of several named ones it is the one named "default".
	ChatTemplate string
	// ChatTemplates are all templates by their names, such as "default", "tool_use" and "rag", if they have names.
	ChatTemplates map[string]string
	// BOS and EOS are the values of bos_token and eos_token in templates, "" if there are none.
	BOS, EOS string
	// Tokens are the other tokens that templates know, by their names: unk_token, pad_token, image_token …
	Tokens map[string]string
}

// ParseTokenizerConfig reads a tokenizer_config.json.
func ParseTokenizerConfig(data []byte) (TokenizerConfig, error) {
	o := parseObject(data)
	c := TokenizerConfig{BOS: o.token("bos_token"), EOS: o.token("eos_token"), Tokens: tokens(o.keys)}
	c.ChatTemplate, c.ChatTemplates = o.templates("chat_template")
	if o.err != nil {
		return TokenizerConfig{}, fmt.Errorf("tokenizer_config.json: %w", o.err)
	}
	return c, nil
}

// tokens returns the tokens under keys that end in _token, and those in extra_special_tokens, as transformers gives
// them to templates.
func tokens(keys map[string]json.RawMessage) map[string]string {
	var extra, found map[string]json.RawMessage
	_ = json.Unmarshal(keys["extra_special_tokens"], &extra) // which may be a list of tokens without names
	found = maps.Clone(extra)
	for key, raw := range keys {
		if strings.HasSuffix(key, "_token") && key != "bos_token" && key != "eos_token" {
			if found == nil {
				found = map[string]json.RawMessage{}
			}
			found[key] = raw
		}
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

// templates reads a template, or a list of named templates.
func (o *object) templates(key string) (text string, named map[string]string) {
	var list []struct{ Name, Template string }
	if !o.has(key) || json.Unmarshal(o.keys[key], &list) != nil {
		return optional(o, key, ""), nil
	}
	named = map[string]string{}
	for _, t := range list {
		named[t.Name] = t.Template
	}
	return named[DefaultTemplate], named
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
