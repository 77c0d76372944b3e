package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The files that Read reads.
const (
	mainFile   = "tokenizer.json"
	configFile = "tokenizer_config.json"
	addedFile  = "added_tokens.json"
	mapFile    = "special_tokens_map.json"
)

// Read reads a model's tokenizer as transformers' from_pretrained does: tokenizer.json, and the tokens that
// tokenizer_config.json, added_tokens.json and special_tokens_map.json add to it, or whose flags they change. read
// returns the contents of a file by its name, or fs.ErrNotExist. Only tokenizer.json is required.
//
// A token that tokenizer.json lacks gets the next free id, whatever id the other files name: these only decide the
// order. If tokenizer_config.json has added_tokens_decoder, added_tokens.json and special_tokens_map.json are not
// read. Version 4 of transformers does the same, except that it refuses a list in extra_special_tokens. So does
// version 5, except in classes that it builds from the vocabulary, such as Qwen2Tokenizer: for these it ignores the
// added tokens of tokenizer.json if there is an added_tokens_decoder, which has all of them in published models.
func Read(read func(file string) ([]byte, error)) (*Tokenizer, error) {
	data, err := read(mainFile)
	if err != nil {
		return nil, err
	}
	var more tokenFiles
	for _, f := range []struct {
		name string
		to   *settings
	}{{configFile, &more.config}, {addedFile, &more.added}, {mapFile, &more.special}} {
		if more.config.has(listedKey) {
			break
		}
		data, err := read(f.name)
		if err == nil {
			*f.to, err = readSettings(data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	var wrong error // of another file
	t, err := parse(data, func(own []addedToken) (all []addedToken, err error) {
		all, wrong = more.tokens(own)
		return all, wrong
	})
	if err != nil && wrong == nil {
		err = fmt.Errorf("%s: %w", mainFile, err)
	}
	return t, err
}

// settings is a JSON object that keeps the order of its keys.
type settings struct {
	keys   []string
	values map[string]json.RawMessage
}

func readSettings(data []byte) (s settings, err error) {
	if err := json.Unmarshal(data, &s.values); err != nil {
		if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
			err = fmt.Errorf("it is of the type %s", wrong.Value)
		}
		return s, fmt.Errorf("it is not a JSON object: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.Token()
	ordered := settings{}
	for s.values != nil && d.More() {
		var value json.RawMessage
		key, err1 := d.Token()
		err2 := d.Decode(&value)
		if err := errors.Join(err1, err2); err != nil {
			return s, err
		}
		name, _ := key.(string)
		ordered.set(name, value)
	}
	return ordered, nil
}

func (s *settings) has(key string) bool {
	raw, ok := s.values[key]
	return ok && string(raw) != "null"
}

func (s *settings) set(key string, value json.RawMessage) {
	if s.values == nil {
		s.values = map[string]json.RawMessage{}
	}
	if _, known := s.values[key]; !known {
		s.keys = append(s.keys, key)
	}
	s.values[key] = value
}

// A flagged is an added token as the files write it.
type flagged struct {
	addedToken
	text    bool // it is a string, and has no flags
	config  bool // it is an object in tokenizer_config.json
	implied bool // normalized is not written: it is the opposite of special
}

// readToken reads an added token: a string, which is special, or an object. It returns false for anything else, such
// as null, or the switch add_bos_token. If special is true, an object's token is special whatever it says.
func readToken(raw json.RawMessage, special bool) (token flagged, ok bool) {
	var content *string
	if json.Unmarshal(raw, &content) == nil {
		if content == nil {
			return token, false
		}
		return flagged{addedToken: addedToken{Content: *content, Special: true}, text: true}, true
	}
	var object struct {
		addedToken
		Content    *string `json:"content"`
		Normalized *bool   `json:"normalized"`
	}
	if json.Unmarshal(raw, &object) != nil || object.Content == nil {
		return token, false
	}
	token.addedToken = object.addedToken
	token.ID = 0
	token.Content = *object.Content
	token.Special = special || object.Special
	token.config = !special
	if token.implied = object.Normalized == nil; token.implied {
		token.Normalized = !token.Special
	} else {
		token.Normalized = *object.Normalized
	}
	return token, true
}

// readTokens returns the tokens in a list, or none if it is not a list.
func readTokens(raw json.RawMessage, special bool) (tokens []flagged) {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // an object has names
	for _, raw := range list {
		if token, ok := readToken(raw, special); ok {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// unique returns the tokens without repetitions, in order.
func unique(tokens []flagged) (out []flagged) {
	seen := map[flagged]bool{}
	for _, token := range tokens {
		if !seen[token] {
			seen[token] = true
			out = append(out, token)
		}
	}
	return out
}

// names are tokens with names, in order.
type names struct {
	keys   []string
	tokens map[string]flagged
}

func (n *names) set(key string, token flagged) {
	if n.tokens == nil {
		n.tokens = map[string]flagged{}
	}
	if _, known := n.tokens[key]; !known {
		n.keys = append(n.keys, key)
	}
	n.tokens[key] = token
}

// setAll sets the tokens in a JSON object, if it is one.
func (n *names) setAll(raw json.RawMessage, special bool) {
	object, err := readSettings(raw)
	for _, key := range object.keys {
		if token, ok := readToken(object.values[key], special); ok && err == nil {
			n.set(key, token)
		}
	}
}

// usualNames lists the names that the tokens of every tokenizer may have, in transformers' order.
var usualNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

const (
	extraKey = "extra_special_tokens"
	oldKey   = "additional_special_tokens" // its name in version 4
)

// tokenFiles holds the contents of the files other than tokenizer.json, and what they say about tokens.
type tokenFiles struct {
	config, added, special settings

	usual          map[string]flagged // by usualNames
	objects, texts names              // with names of the model's own: written as objects, and as strings
	extra          []flagged          // special tokens without names
	hasExtra       bool               // there is a list of them, if empty
	old            json.RawMessage    // the list under the old name, if it was not taken
	listed         map[int]flagged    // by the ids that the files name
	byText         map[string]flagged // the same tokens
}

// tokens appends to the added tokens of tokenizer.json the tokens that the other files add, or whose flags they
// change. The steps and their order are the same as in PreTrainedTokenizerBase._from_pretrained and
// TokenizersBackend.__init__.
func (f *tokenFiles) tokens(own []addedToken) ([]addedToken, error) {
	f.usual, f.listed, f.byText = map[string]flagged{}, map[int]flagged{}, map[string]flagged{}
	f.readConfig()
	if f.config.has(listedKey) {
		if err := f.readListed(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", configFile, listedKey, err)
		}
	} else {
		f.readSpecial()
		if err := f.readAdded(); err != nil {
			return nil, fmt.Errorf("%s: %w", addedFile, err)
		}
		for _, a := range own {
			f.list(int(a.ID), flagged{addedToken: a})
		}
	}
	if !f.hasExtra {
		f.extra = readTokens(f.old, true)
	}
	for key, token := range f.usual {
		if same, ok := f.byText[token.Content]; ok {
			f.usual[key] = same
		}
	}
	return f.merge(own), nil
}

const listedKey = "added_tokens_decoder"

// readConfig reads the tokens that tokenizer_config.json has under names, and the extra ones.
func (f *tokenFiles) readConfig() {
	for _, key := range f.config.keys {
		token, ok := readToken(f.config.values[key], false)
		switch {
		case !ok || !strings.HasSuffix(key, "_token"):
		case slices.Contains(usualNames, key):
			f.usual[key] = token
		case token.text:
			f.texts.set(key, token)
		default:
			f.objects.set(key, token)
		}
	}
	extra, old := f.config.values[extraKey], f.config.values[oldKey]
	if slices.Contains([]string{"", "null", "[]", "{}"}, string(extra)) && old != nil {
		extra, old = old, nil
	}
	f.extra = readTokens(extra, false)
	f.hasExtra = extra != nil && extra[0] != '{'
	f.old = old
	f.texts.setAll(extra, false)
	if len(f.texts.keys) == 0 {
		f.texts.setAll(f.config.values["model_specific_special_tokens"], false)
	}
}

// readSpecial reads special_tokens_map.json, which wins over tokenizer_config.json.
func (f *tokenFiles) readSpecial() {
	for _, key := range f.special.keys {
		raw := f.special.values[key]
		token, ok := readToken(raw, true)
		switch {
		case key == oldKey:
			f.old = raw
		case key == extraKey:
			f.hasExtra = raw[0] != '{'
			f.extra = unique(append(f.extra, readTokens(raw, true)...))
			f.texts.setAll(raw, true)
		case slices.Contains(usualNames, key):
			if delete(f.usual, key); ok {
				f.usual[key] = token
			}
		case strings.HasSuffix(key, "_token"):
			f.objects.set(key, token) // of no text if it is null
		}
	}
}

func (f *tokenFiles) list(id int, token flagged) {
	token.ID = 0
	f.listed[id] = token
	f.byText[token.Content] = token
}

// readListed reads added_tokens_decoder.
func (f *tokenFiles) readListed() error {
	list, err := readSettings(f.config.values[listedKey])
	for _, key := range list.keys {
		id, err := strconv.Atoi(strings.TrimSpace(key))
		token, ok := readToken(list.values[key], false)
		if err != nil || !ok || token.text {
			return fmt.Errorf("%.60q: %.100s: want an id with its token, an object", key, list.values[key])
		}
		f.list(id, token)
	}
	return err
}

// readAdded reads added_tokens.json, whose tokens are special if they have one of the usual names or are extra ones.
// transformers does not find tokens that tokenizer_config.json has as objects.
func (f *tokenFiles) readAdded() error {
	special := map[string]bool{}
	for _, token := range slices.AppendSeq(slices.Clone(f.extra), maps.Values(f.usual)) {
		special[token.Content] = special[token.Content] || !token.config
	}
	for _, content := range f.added.keys {
		id, err := strconv.Atoi(string(f.added.values[content]))
		if err != nil {
			return fmt.Errorf("the id of %.60q is %.60s: want a whole number", content, f.added.values[content])
		}
		f.list(id, flagged{addedToken: addedToken{Content: content, Normalized: !special[content],
			Special: special[content]}})
	}
	return nil
}

// merge returns the tokens of tokenizer.json, then the tokens that other files list, then named ones, then the extra
// ones. The last two are only for tokens that are not there yet.
func (f *tokenFiles) merge(own []addedToken) []addedToken {
	known := map[string]bool{}
	for _, a := range own {
		known[a.Content] = true
	}
	var more, others []flagged
	for _, id := range slices.Sorted(maps.Keys(f.listed)) {
		more = append(more, f.listed[id])
		known[f.listed[id].Content] = true
	}
	for _, key := range f.texts.keys {
		if slices.Contains(usualNames, key) {
			f.usual[key] = f.texts.tokens[key]
		} else {
			f.objects.set(key, f.texts.tokens[key])
		}
	}
	for _, key := range usualNames {
		if token, ok := f.usual[key]; ok {
			others = append(others, token)
		}
	}
	for _, key := range f.objects.keys {
		others = append(others, f.objects.tokens[key])
	}
	named := map[string]bool{}
	for _, token := range others {
		named[token.Content] = true
	}
	for _, token := range slices.Concat(others, f.extra) {
		if !known[token.Content] {
			more = append(more, token)
		}
	}
	for _, token := range unique(more) {
		if token.Content == "" {
			continue
		}
		if !token.Special && named[token.Content] {
			token.Special, token.Normalized = true, token.Normalized && !token.implied
		}
		token.ID = -1 // the next one
		own = append(own, token.addedToken)
	}
	return own
}
