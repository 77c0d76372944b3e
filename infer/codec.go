package infer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"restyle/chat"
	"restyle/hf"
	"restyle/tokenizer"
)

// A Codec turns conversations into a model's tokens, and its tokens into text.
type Codec struct {
	Tokenizer *tokenizer.Tokenizer
	Template  chat.Template // with the BOS and EOS of the model's tokenizer
	Ends      []int32       // tokens that end an answer
	// Suggested is how the model's authors want it to be sampled; nil if they do not say, or want greedy decoding.
	Suggested *Sampling
	Rules     Rules // what generation_config.json says of every answer
}

// CodecOf returns the codec of a model, from its files: tokenizer.json, the chat template, and what
// generation_config.json says: the tokens that end an answer, and how to sample. If template is not empty, it is the
// name of a chat template to use instead of the model's default: one of chat.Names, or one of the model's own. If
// neither has it, the error is an [*UnknownTemplate]. A tokenizer that belongs to another model is an error.
func CodecOf(c *hf.Checkpoint, template string) (codec Codec, err error) {
	if codec.Template, err = pickTemplate(c, template); err != nil {
		return codec, err
	}
	codec.Tokenizer, err = tokenizer.Read(c.ReadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return codec, fmt.Errorf("%s has no tokenizer.json, so no text can become its tokens: "+
			"get the file from the model's repository, or save it with transformers (AutoTokenizer.from_pretrained, "+
			"save_pretrained)", c.Name)
	}
	if err != nil {
		return codec, fmt.Errorf("the tokenizer of %s: %w", c.Name, err)
	}
	if err := checkTokenizer(codec.Tokenizer, c); err != nil {
		return codec, fmt.Errorf("tokenizer.json of %s is not the tokenizer of this model: %w; "+
			"take it and the weights from the same place", c.Name, err)
	}
	if err := codec.checkTemplate(c.Name, template); err != nil {
		return codec, err
	}
	codec.Ends = c.Generation.EOS
	for _, text := range codec.Template.Stops() {
		if id, ok := codec.Tokenizer.TokenID(text); ok {
			codec.Ends = append(codec.Ends[:len(codec.Ends):len(codec.Ends)], id)
		}
	}
	codec.Rules = rulesOf(c.Generation)
	if g := c.Generation; g.DoSample {
		codec.Suggested = &Sampling{Temperature: g.Temperature, TopK: g.TopK, TopP: g.TopP, MinP: g.MinP,
			RepetitionPenalty: g.RepetitionPenalty}
	}
	return codec, nil
}

// checkTemplate refuses a template that was chosen by name if the vocabulary lacks its BOS or its end of an answer: the
// model could never end one. For Raw, which has neither, it sets BOS to the token that the tokenizer prepends to every
// text.
func (codec *Codec) checkTemplate(model, template string) error {
	if codec.Template.Name == chat.Raw().Name {
		codec.Template.BOS = ""
		first := codec.Tokenizer.Encode("a", tokenizer.EncodeOptions{AddSpecial: true})
		if len(first.Ends) > 0 && first.Ends[0] == 0 {
			codec.Template.BOS = codec.Tokenizer.Token(first.IDs[0])
		}
		return nil
	}
	if template == "" {
		return nil
	}
	missing := missingToken(codec.Tokenizer, codec.Template)
	if missing == "" {
		return nil
	}
	var others []string
	for _, name := range chat.Names() {
		if template, err := chat.ByName(name); err == nil && missingToken(codec.Tokenizer, template) == "" {
			others = append(others, name)
		}
	}
	return fmt.Errorf("template %s: the vocabulary of %s has no token %s, which it needs: use one of %s",
		template, model, missing, strings.Join(others, ", "))
}

// missingToken returns the BOS or the end of an answer of a template, if the vocabulary lacks it, or "" if it has both.
func missingToken(t *tokenizer.Tokenizer, template chat.Template) string {
	needed := []string{template.EndOfTurn()}
	if r, err := template.Render([]chat.Message{{Role: "user"}}, chat.Options{}); err == nil && r.BOS {
		needed = append(needed, template.BOS)
	}
	for _, token := range needed {
		if _, ok := t.TokenID(token); !ok && token != "" {
			return token
		}
	}
	return ""
}

// Apply sets a model's small files to this codec's template, so that whoever opens or saves the model uses it. If the
// files have the template already, it changes nothing and returns false.
func (codec Codec) Apply(c *hf.Checkpoint) (changed bool, err error) {
	if own, err := chat.Detect(c.Tokenizer.ChatTemplate); err == nil && own.Name == codec.Template.Name {
		return false, nil
	}
	end, ok := codec.Tokenizer.TokenID(codec.Template.EndOfTurn())
	if !ok {
		end = -1
	}
	t := codec.Template
	for _, token := range []*string{&t.BOS, &t.EOS} { // naming a token that the vocabulary lacks would add it
		if _, ok := codec.Tokenizer.TokenID(*token); !ok {
			*token = ""
		}
	}
	return true, c.SetTemplate(hf.ChatTemplate{Jinja: t.Jinja(), BOS: t.BOS, EOS: t.EOS, End: end})
}

// TemplateHelp returns the help of a flag whose value is CodecOf's template.
func TemplateHelp() string {
	return "chat template to use instead of the model's default, by its `name`: another of the model's own, such as " +
		"tool_use, or " + strings.Join(chat.Names(), ", ")
}

// UnknownTemplate is the error for a chat template that neither the model nor package chat has.
type UnknownTemplate struct {
	Name  string   // "" if the model has several and none is the default
	Model string   // the model's name
	Own   []string // names of the model's own templates
}

func (e *UnknownTemplate) Error() string {
	own := "no chat template with a name"
	if len(e.Own) > 0 {
		own = "the chat templates " + strings.Join(e.Own, ", ")
	}
	what := fmt.Sprintf("chat template %q: unknown", e.Name)
	if e.Name == "" {
		what = "none of the chat templates is the default"
	}
	return fmt.Sprintf("%s: %s has %s; choose one of these or of %s",
		what, e.Model, own, strings.Join(chat.Names(), ", "))
}

// pickTemplate returns the template of that name, which package chat or the model has, or the model's default.
func pickTemplate(c *hf.Checkpoint, name string) (template chat.Template, err error) {
	own := slices.Sorted(maps.Keys(c.Tokenizer.ChatTemplates))
	if len(own) == 0 && c.Tokenizer.ChatTemplate != "" {
		own = []string{hf.DefaultTemplate}
	}
	if name != "" {
		template, err = chat.ByName(name)
	}
	if name == "" || err != nil {
		text, ok := c.Tokenizer.Template(cmp.Or(name, hf.DefaultTemplate))
		if !ok && name == "" && c.TemplateError != nil {
			return template, fmt.Errorf("%w: choose a template by its name: %s", c.TemplateError,
				strings.Join(chat.Names(), ", "))
		}
		if !ok && (name != "" || len(own) > 0) {
			return template, &UnknownTemplate{name, c.Name, own}
		}
		template, err = chat.Detect(text)
	}
	if err != nil {
		return template, err
	}
	if c.Tokenizer.BOS != "" {
		template.BOS = c.Tokenizer.BOS
	}
	if c.Tokenizer.EOS != "" {
		template.EOS = c.Tokenizer.EOS
	}
	template.Tokens = c.Tokenizer.Tokens
	return template, nil
}

// CheckTokenizer returns an error if the tokenizer.json of a model cannot be read, or belongs to another model. It
// returns nil if there is none.
func CheckTokenizer(c *hf.Checkpoint) error {
	t, err := tokenizer.Read(c.ReadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = checkTokenizer(t, c)
	}
	return err
}

// checkTokenizer reports how a tokenizer does not fit a model: text may become ids for which the model has no
// embedding, it lacks all tokens that end the model's answers, or has less than half as many tokens as there are
// embeddings. (There are often a few more embeddings than tokens, to have a round number.) Added tokens need no
// embedding until they occur: many models have a [PAD] without one, which is checked where it is used.
func checkTokenizer(t *tokenizer.Tokenizer, c *hf.Checkpoint) error {
	vocab := c.Config.Vocab
	switch {
	case int(t.MaxPlainID()) >= vocab:
		return fmt.Errorf("its ids go up to %d, but the model has %d embeddings", t.MaxPlainID(), vocab)
	case 2*t.VocabSize() < vocab:
		return fmt.Errorf("it has %d tokens, but the model has %d embeddings", t.VocabSize(), vocab)
	}
	ends := c.Generation.EOS
	if len(ends) > 0 && !slices.ContainsFunc(ends, func(id int32) bool { return t.Token(id) != "" }) {
		return fmt.Errorf("it lacks token %d, with which the model ends an answer", ends[0])
	}
	return nil
}
