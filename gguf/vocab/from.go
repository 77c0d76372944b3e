package vocab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// component is a part of tokenizer.json that splits or rewrites text, with the fields of all types.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`

	Pattern struct{ String, Regex *string } `json:"pattern"`
	Content string                          `json:"content"`
	Prepend string                          `json:"prepend"`

	Behavior         string  `json:"behavior"`
	Invert           bool    `json:"invert"`
	IndividualDigits bool    `json:"individual_digits"`
	AddPrefixSpace   *bool   `json:"add_prefix_space"`
	UseRegex         *bool   `json:"use_regex"`
	PrependScheme    string  `json:"prepend_scheme"`
	Split            *bool   `json:"split"`
	Replacement      string  `json:"replacement"`
	Single           []piece `json:"single"`
	SpecialTokens    map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
}

type piece struct {
	Sequence, SpecialToken *struct {
		ID string `json:"id"`
	}
}

// A list has the members of a component and of the sequences in it, in order. It is empty for null.
type list []component

// maxValues is the largest number of commas and opening braces in a list. Published ones have at most a hundred.
const maxValues = 1000

func (l *list) UnmarshalJSON(data []byte) error {
	if n := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte(",")); n > maxValues {
		return fmt.Errorf("a normalizer, pre_tokenizer or post_processor of %d values: at most %d are supported", n,
			maxValues)
	}
	var c *component
	err := json.Unmarshal(data, &c)
	if c != nil {
		l.add(c)
	}
	return err
}

func (l *list) add(c *component) {
	if c.Type != "Sequence" {
		*l = append(*l, *c)
	}
	for _, members := range [][]component{c.Normalizers, c.PreTokenizers, c.Processors} {
		for i := range members {
			l.add(&members[i])
		}
	}
}

// merge is "a b" or ["a", "b"].
type merge [2]string

func (m *merge) UnmarshalJSON(data []byte) error {
	var text string
	if data[0] == '[' {
		return json.Unmarshal(data, (*[2]string)(m))
	}
	err := json.Unmarshal(data, &text)
	m[0], m[1], _ = strings.Cut(text, " ")
	return err
}

// tokenizerFile is a tokenizer.json.
type tokenizerFile struct {
	Added         []added `json:"added_tokens"`
	Normalizer    list    `json:"normalizer"`
	PreTokenizer  list    `json:"pre_tokenizer"`
	PostProcessor list    `json:"post_processor"`
	Model         struct {
		Type         *string        `json:"type"`
		Unknown      *string        `json:"unk_token"`
		ByteFallback bool           `json:"byte_fallback"`
		IgnoreMerges bool           `json:"ignore_merges"`
		Vocab        map[string]int `json:"vocab"`
		Merges       []merge        `json:"merges"`
	} `json:"model"`
}

// FromFiles returns the keys of a GGUF file for a tokenizer.json, tokenizer_config.json and generation_config.json; the
// last two may be nil. rows is the model's number of embeddings: ids without a token get unused ones named [PADn]. The
// whole tokenizer.json is a key as well. A caller whose model has templates in files of their own sets Template and
// Templates.
//
// notes are differences that llama.cpp will have, to tell the user. Anything that a GGUF file cannot express is an
// error.
func FromFiles(tokenizer, config, generation []byte, rows int) (v Vocab, notes []string, err error) {
	f := &from{rows: rows}
	f.Vocab = Vocab{BOS: -1, EOS: -1, EOT: -1, EOM: -1, Unknown: -1, Pad: -1, HuggingFace: string(tokenizer)}
	if err := json.Unmarshal(tokenizer, &f.file); err != nil {
		return v, nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	for _, step := range []func() error{f.tokens, f.split, f.template,
		func() error { return f.config(config) }, func() error { return f.generation(generation) }} {
		if err := step(); err != nil {
			return v, nil, err
		}
	}
	return f.Vocab, f.notes, nil
}

// from is the work of FromFiles.
type from struct {
	Vocab
	file  tokenizerFile
	rows  int
	ids   map[string]int
	notes []string
}

func (f *from) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// tokens sets the tokens and their types.
func (f *from) tokens() error {
	m := &f.file.Model
	if m.Type != nil && *m.Type != "BPE" || len(m.Merges) == 0 {
		return errors.New("tokenizer.json: its model is not BPE with merges: only that can be written to a GGUF file")
	}
	f.Tokens, f.Types = make([]string, f.rows), make([]int, f.rows)
	f.ids = make(map[string]int, f.rows)
	put := func(text string, id, kind int) error {
		if id < 0 || id >= f.rows {
			return fmt.Errorf("token %q has the id %d, but the model has only %d embeddings: a GGUF file has none for it",
				text, id, f.rows)
		}
		if old := f.Tokens[id]; text == "" || old != "" && old != text {
			return fmt.Errorf("id %d has the tokens %q and %q: must be one that is not empty", id, old, text)
		}
		f.Tokens[id], f.Types[id], f.ids[text] = text, kind, id
		return nil
	}
	for text, id := range m.Vocab {
		if err := put(text, id, Normal); err != nil {
			return err
		}
	}
	for _, a := range f.file.Added {
		kind := UserDefined
		if a.Special {
			kind = Control
		}
		if id, known := f.ids[a.Content]; known {
			a.ID = id
		}
		if err := put(a.Content, a.ID, kind); err != nil {
			return err
		}
		if a.LStrip || a.RStrip || a.SingleWord {
			f.note("the token %q takes white space next to it, or is found only as a whole word: not so in llama.cpp",
				a.Content)
		}
	}
	for id, text := range f.Tokens {
		if text != "" {
			continue
		}
		if err := put(fmt.Sprintf("[PAD%d]", id), id, Unused); err != nil {
			return err
		}
	}
	if len(f.ids) != f.rows {
		return errors.New("tokenizer.json: a token has the name [PADn], which is that of an id without a token: rename it")
	}
	if m.Unknown != nil {
		if id, known := f.ids[*m.Unknown]; known {
			f.Unknown = id
		}
	}
	return nil
}

// split sets the kind of the tokenizer, the name of its pre-tokenizer, and the merges or scores.
func (f *from) split() error {
	if f.file.Model.ByteFallback {
		return f.scored()
	}
	for _, c := range f.file.Normalizer {
		if c.Type != "NFC" {
			return fmt.Errorf("tokenizer.json has the normalizer %q: no GGUF file can say so", c.Type)
		}
		f.note("llama.cpp does not normalize text (NFC): text with combining characters has other tokens there")
	}
	splits, err := patterns(f.file.PreTokenizer)
	if err != nil {
		return err
	}
	f.Model = "gpt2"
	if err := f.nameSplits(splits); err != nil {
		return err
	}
	for _, m := range f.file.Model.Merges {
		// The space between the two is the first, so a space within one of them is written as in the byte alphabet.
		f.Merges = append(f.Merges, strings.ReplaceAll(m[0], " ", "Ġ")+" "+strings.ReplaceAll(m[1], " ", "Ġ"))
	}
	return nil
}

// patterns returns what a byte-level pre-tokenizer splits by, spelled as in pres.
func patterns(parts list) (splits []string, err error) {
	last := false
	for _, c := range parts {
		isolated := c.Behavior == "Isolated" && !c.Invert || c.Behavior == "Removed" && c.Invert
		switch {
		case c.Type == "ByteLevel" && (c.AddPrefixSpace == nil || *c.AddPrefixSpace):
			return nil, errors.New("tokenizer.json adds a space before texts (add_prefix_space of ByteLevel): no GGUF file " +
				"can say so")
		case c.Type == "ByteLevel":
			last = true
			if c.UseRegex == nil || *c.UseRegex {
				splits = append(splits, gpt2)
			}
		case c.Type == "Digits" && c.IndividualDigits:
			splits = append(splits, digit)
		case c.Type == "Split" && c.Pattern.Regex != nil && isolated:
			splits = append(splits, spelled.Replace(*c.Pattern.Regex))
		default:
			return nil, fmt.Errorf("tokenizer.json has the pre_tokenizer %q with behavior %q: no GGUF file can say so",
				c.Type, c.Behavior)
		}
	}
	if !last {
		return nil, errors.New("tokenizer.json is neither byte-level nor has byte_fallback: no GGUF file can say so")
	}
	return splits, nil
}

// nameSplits sets Pre to the name that means these splits, or to the nearest with a note.
func (f *from) nameSplits(splits []string) error {
	ignore := f.file.Model.IgnoreMerges
	same := slices.DeleteFunc(slices.Clone(pres), func(p pre) bool { return !slices.Equal(p.splits, splits) })
	exact := slices.IndexFunc(same, func(p pre) bool { return p.ignoreMerges == ignore })
	switch {
	case exact >= 0:
		f.Pre = strings.Fields(same[exact].names)[0]
		return nil
	case len(same) > 0:
		f.Pre = strings.Fields(same[0].names)[0]
		f.note("the nearest pre-tokenizer of llama.cpp is %q: it splits the same, but ignore_merges is %v there and %v "+
			"here, so words that are tokens which merging does not make have other ids", f.Pre, !ignore, ignore)
		return nil
	}
	for _, near := range nearest {
		if slices.Equal(near.splits, splits) {
			f.Pre = near.names
			f.note("the nearest pre-tokenizer of llama.cpp is %q: %s", f.Pre, near.differs)
			return nil
		}
	}
	return fmt.Errorf("tokenizer.json splits text by %.200q, as no pre-tokenizer of llama.cpp does: no GGUF file can "+
		"say so", splits)
}

// template sets whether BOS and EOS are added to texts.
func (f *from) template() error {
	sides := [2][]int{}
	for _, c := range f.file.PostProcessor {
		if c.Type == "ByteLevel" { // affects only offsets
			continue
		}
		if c.Type != "TemplateProcessing" {
			return fmt.Errorf("tokenizer.json has the post_processor %q: no GGUF file can say so", c.Type)
		}
		side := 0
		for _, p := range c.Single {
			if p.SpecialToken != nil {
				sides[side] = append(sides[side], c.SpecialTokens[p.SpecialToken.ID].IDs...)
			} else {
				side = 1
			}
		}
	}
	f.AddBOS, f.AddEOS = new(bool), new(bool)
	for i, to := range []struct {
		add *bool
		id  *int
		key string
	}{{f.AddBOS, &f.BOS, "before"}, {f.AddEOS, &f.EOS, "after"}} {
		switch ids := sides[i]; {
		case len(ids) > 1:
			return fmt.Errorf("tokenizer.json puts %d tokens %s each text: a GGUF file can say one", len(ids), to.key)
		case len(ids) == 1 && (ids[0] < 0 || ids[0] >= f.rows):
			return fmt.Errorf("tokenizer.json puts the token %d %s each text: there are %d", ids[0], to.key, f.rows)
		case len(ids) == 1:
			*to.add, *to.id = true, ids[0]
		}
	}
	return nil
}

// token is the text of a token, or an object that has it.
type token string

func (t *token) UnmarshalJSON(data []byte) error {
	var o struct{ Content string }
	if json.Unmarshal(data, &o) == nil {
		*t = token(o.Content)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// config sets what tokenizer_config.json says.
func (f *from) config(data []byte) error {
	var c struct {
		BOS       token            `json:"bos_token"`
		EOS       token            `json:"eos_token"`
		Unknown   token            `json:"unk_token"`
		Pad       token            `json:"pad_token"`
		Templates json.RawMessage  `json:"chat_template"`
		Listed    map[string]added `json:"added_tokens_decoder"`
	}
	if data == nil {
		return nil
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("tokenizer_config.json: %w", err)
	}
	for _, named := range []struct {
		key  string
		text token
		id   *int
	}{{"bos_token", c.BOS, &f.BOS}, {"eos_token", c.EOS, &f.EOS}, {"unk_token", c.Unknown, &f.Unknown},
		{"pad_token", c.Pad, &f.Pad}} {
		id, known := f.ids[string(named.text)]
		switch {
		case named.text == "":
		case !known:
			return fmt.Errorf("tokenizer_config.json: %s is %q, which tokenizer.json lacks", named.key, named.text)
		case *named.id >= 0 && *named.id != id && named.id != &f.Unknown:
			return fmt.Errorf("tokenizer_config.json: %s is %q, but tokenizer.json adds %q to texts: a GGUF file has one",
				named.key, named.text, f.text(*named.id))
		default:
			*named.id = id
		}
	}
	for key, t := range c.Listed {
		id, known := f.ids[t.Content]
		if wanted, err := strconv.Atoi(key); err != nil || !known || id != wanted {
			return fmt.Errorf("tokenizer_config.json adds the token %q with id %s, which tokenizer.json lacks: save the "+
				"tokenizer with transformers first", t.Content, key)
		}
		if t.Special {
			f.Types[id] = Control
		} else if f.Types[id] == Normal {
			f.Types[id] = UserDefined
		}
	}
	return f.templates(c.Templates)
}

// templates sets the chat template, or the named ones.
func (f *from) templates(data json.RawMessage) error {
	var list []struct{ Name, Template string }
	if len(data) == 0 || json.Unmarshal(data, &f.Template) == nil {
		return nil
	}
	named := map[string]string{}
	if json.Unmarshal(data, &named) != nil {
		if err := json.Unmarshal(data, &list); err != nil {
			return fmt.Errorf("tokenizer_config.json: chat_template: %w", err)
		}
		for _, t := range list {
			named[t.Name] = t.Template
		}
	}
	f.Template = named["default"]
	if delete(named, "default"); len(named) > 0 {
		f.Templates = named
	}
	return nil
}

// ids are one id or several.
type ids []int

func (i *ids) UnmarshalJSON(data []byte) error {
	var one *int // nil for null
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			*i = ids{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]int)(i))
}

// generation sets further tokens that end an answer: a GGUF file names three, and llama.cpp knows others by their
// texts.
func (f *from) generation(data []byte) error {
	var g struct {
		EOS ids `json:"eos_token_id"`
	}
	if data != nil {
		if err := json.Unmarshal(data, &g); err != nil {
			return fmt.Errorf("generation_config.json: %w", err)
		}
	}
	for _, id := range g.EOS {
		if id < 0 || id >= f.rows {
			return fmt.Errorf("generation_config.json: eos_token_id has %d, and the model has %d tokens", id, f.rows)
		}
	}
	if f.EOS < 0 && len(g.EOS) > 0 {
		f.EOS = g.EOS[0]
	}
	if id, known := f.ids["<|eom_id|>"]; known {
		f.EOM = id
	}
	for _, id := range g.EOS {
		switch {
		case id == f.EOS || id == f.EOM:
		case f.EOT < 0:
			f.EOT = id
		case !slices.Contains(f.Ends(), id) && f.EOM < 0:
			f.EOM = id
		case !slices.Contains(f.Ends(), id):
			f.note("llama.cpp will not end answers at %q: a GGUF file has no place for a fourth token", f.text(id))
		}
	}
	return nil
}
