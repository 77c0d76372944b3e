package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"restyle/chat"
	"restyle/internal/disk"
	"restyle/tokenizer"
)

func isChat(f *folder) bool {
	return slices.ContainsFunc(f.files, func(file string) bool {
		if filepath.Ext(file) != ".jsonl" {
			return false
		}
		is := false
		stop := errors.New("the first line is enough")
		f.eachLine(file, func(_ int, line []byte) error {
			var row map[string]json.RawMessage
			is = json.Unmarshal(line, &row) == nil && row["messages"] != nil
			return stop
		})
		return is
	})
}

// tokenizersOf are the tokenizers with which conversations were encoded, by family. They have the special tokens of the
// family.
var tokenizersOf = map[string]string{
	"llama3": "llama3", "llama3.1": "llama3", "llama3.2": "llama3",
	"chatml": "qwen2-tiny", "qwen2.5": "qwen2-tiny", "smollm2": "qwen2-tiny",
}

func compareChat(f *folder) error {
	toks := map[string]*tokenizer.Tokenizer{}
	for _, file := range f.files {
		name := strings.TrimSuffix(file, ".jsonl")
		family, err := chat.ByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var tok *tokenizer.Tokenizer
		if folder := tokenizersOf[name]; folder != "" {
			if tok = toks[folder]; tok == nil {
				if tok, err = f.loadTokenizer(filepath.Join("..", "tokenizer", folder, "tokenizer.json")); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				toks[folder] = tok
			}
		}
		if err := f.compareFamily(file, family, tok); err != nil {
			return err
		}
	}
	return f.compareTemplates()
}

// compareTemplates recognizes the family of each template by the template's text.
func (f *folder) compareTemplates() error {
	paths, err := disk.Glob(filepath.Join(f.dir, "templates", "*.jinja"))
	for _, path := range paths {
		text, err := disk.ReadInput(path, maxFile)
		if err != nil {
			return err
		}
		name := "templates/" + filepath.Base(path)
		f.enter(name)
		got, err := chat.Detect(string(text))
		f.compare("template recognised", name, differ(err == nil && got.Name+".jinja" == filepath.Base(path)), exact)
	}
	return err
}

// conversation is a line: messages, and what a template renders from them.
type conversation struct {
	Messages []chat.Message
	Options  struct {
		AddGenerationPrompt bool   `json:"add_generation_prompt"`
		DateString          string `json:"date_string"`
		Now                 string
	}
	Text           string
	Error          *string
	ErrorType      string `json:"error_type"`
	Spans          [][2]int
	SpansBytes     [][2]int  `json:"spans_bytes"`
	ContentSpans   []*[2]int `json:"content_spans"`
	PrefixOK       bool      `json:"prefix_ok"`
	IDs            []int32
	LossTokens     [][2]int `json:"loss_tokens"`
	IDsSafe        []int32  `json:"ids_safe"`
	LossTokensSafe [][2]int `json:"loss_tokens_safe"`
}

func (f *folder) compareFamily(file string, family chat.Template, tok *tokenizer.Tokenizer) error {
	return f.eachLine(file, func(n int, line []byte) error {
		fields, key, err := f.fields(file, n, line, "name", "messages", "options")
		if err != nil {
			return err
		}
		var v conversation
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		o := chat.Options{AddGenerationPrompt: v.Options.AddGenerationPrompt, DateString: v.Options.DateString}
		if v.Options.Now != "" {
			if o.Now, err = time.Parse("2006-01-02T15:04:05", v.Options.Now); err != nil {
				return err
			}
		}
		r, err := family.Render(v.Messages, o)
		if v.Error != nil {
			var refused *chat.RefusedError
			is := errors.As(err, &refused)
			// Messages of Jinja itself have another type, and their wording need not be equal.
			same := is && (v.ErrorType != "TemplateError" || refused.Reason == *v.Error)
			f.compare("refused conversations", key("error"), differ(same), exact)
			f.compare("refused conversations", key("error_type"), differ(is), exact)
			return nil
		}
		if fields["text"] == nil {
			f.missing(key("text"))
		}
		f.compare("text", key("text"), differ(err == nil && r.Text == v.Text), exact)
		if err != nil {
			return nil // the rest of the line stays open in the ledger, which reports it
		}
		var spans, inBytes [][2]int
		for _, s := range r.Targets {
			spans, inBytes = append(spans, points(r.Text, s)), append(inBytes, [2]int{s.Start, s.End})
		}
		f.compare("spans that are learnt", key("spans"), differ(slices.Equal(spans, v.Spans)), exact)
		f.compare("spans that are learnt", key("spans_bytes"), differ(slices.Equal(inBytes, v.SpansBytes)), exact)
		f.compare("spans of contents", key("content_spans"), differ(sameContents(r, v.ContentSpans)), exact)
		f.compare("prompts are prefixes", key("prefix_ok"), differ(v.promptsExtend(family, o, r) == v.PrefixOK), exact)
		if tok == nil {
			return nil
		}
		open := tok.Encode(r.Text, tokenizer.EncodeOptions{Special: tokenizer.Everywhere})
		f.compare("ids", key("ids"), differ(slices.Equal(open.IDs, v.IDs)), exact)
		f.compare("tokens that are learnt", key("loss_tokens"), differ(slices.Equal(learnt(open, r), v.LossTokens)), exact)

		var markup []tokenizer.Span
		for _, s := range r.Markup {
			markup = append(markup, tokenizer.Span(s))
		}
		safe := tok.Encode(r.Text, tokenizer.EncodeOptions{Special: markup})
		at, ids, tokens := [...]string{key("ids"), key("loss_tokens")}, v.IDs, v.LossTokens
		if fields["ids_safe"] != nil {
			at, ids, tokens = [...]string{key("ids_safe"), key("loss_tokens_safe")}, v.IDsSafe, v.LossTokensSafe
		}
		f.compare("ids, contents as text", at[0], differ(slices.Equal(safe.IDs, ids)), exact)
		f.compare("tokens that are learnt, contents as text", at[1], differ(slices.Equal(learnt(safe, r), tokens)), exact)
		return nil
	})
}

// points returns a span in code points.
func points(text string, s chat.Span) [2]int {
	return [2]int{utf8.RuneCountInString(text[:s.Start]), utf8.RuneCountInString(text[:s.End])}
}

// learnt returns the token ranges of the answers, each including the tokens that end it.
func learnt(e tokenizer.Encoding, r chat.Rendered) (ranges [][2]int) {
	for _, s := range r.Targets {
		if first, end := e.Tokens(tokenizer.Span(s)); first < end {
			ranges = append(ranges, [2]int{first, end})
		}
	}
	return ranges
}

// sameContents compares the positions of the contents, in code points; nil is a content that the template left out. An
// empty one counts as left out.
func sameContents(r chat.Rendered, want []*[2]int) bool {
	return slices.EqualFunc(r.Contents, want, func(got chat.Span, want *[2]int) bool {
		if want == nil || want[0] == want[1] || got == chat.Dropped {
			return (want == nil || want[0] == want[1]) && got == chat.Dropped
		}
		return points(r.Text, got) == *want
	})
}

// promptsExtend reports whether the text before each answer is exactly the prompt that would have asked for it.
func (v conversation) promptsExtend(family chat.Template, o chat.Options, r chat.Rendered) bool {
	o.AddGenerationPrompt = true
	n := 0
	for i, m := range v.Messages {
		if m.Role != "assistant" {
			continue
		}
		before, err := family.Render(v.Messages[:i], o)
		if err != nil || n >= len(r.Targets) || before.Text != r.Text[:r.Targets[n].Start] {
			return false
		}
		n++
	}
	return true
}
