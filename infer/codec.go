package infer

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"restyle/chat"
	"restyle/hf"
	"restyle/tokenizer"
)

// A Codec is how text goes into a model and comes out of it.
type Codec struct {
	Tokenizer *tokenizer.Tokenizer
	Template  chat.Template // the chat template, with the BOS and EOS of the model's tokenizer
	Ends      []int32       // tokens that end an answer
}

// CodecOf reads the language of a model from its files: tokenizer.json, the chat template or, where template is not
// empty, the family of that name (chat.Names), and the tokens that end an answer. A tokenizer that is not the model's is
// refused.
func CodecOf(c *hf.Checkpoint, template string) (codec Codec, err error) {
	if codec.Template, err = pickTemplate(c, template); err != nil {
		return codec, err
	}
	data, err := c.ReadFile("tokenizer.json")
	if errors.Is(err, fs.ErrNotExist) {
		return codec, fmt.Errorf("%s has no tokenizer.json, without which nothing can be asked: "+
			"get the file from the model's repository, or save it with transformers (AutoTokenizer.from_pretrained, save_pretrained)", c.Name)
	}
	if err != nil {
		return codec, err
	}
	if codec.Tokenizer, err = tokenizer.Parse(data); err != nil {
		return codec, fmt.Errorf("tokenizer.json of %s: %w", c.Name, err)
	}
	if err := checkTokenizer(codec.Tokenizer, c); err != nil {
		return codec, fmt.Errorf("tokenizer.json of %s is not the tokenizer of this model: %w; take it and the weights from the same place", c.Name, err)
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
	return codec, nil
}

// fits refuses a template that was asked for by name if the vocabulary lacks what it begins a text or ends an answer with:
// the model could never end one. Raw has neither, and learns what the tokenizer puts in front of every text.
func (l *Codec) checkTemplate(model, template string) error {
	if l.Template.Name == chat.Raw().Name {
		l.Template.BOS = ""
		if first := l.Tokenizer.Encode("a", tokenizer.EncodeOptions{AddSpecial: true}); first.Ends[0] == 0 {
			l.Template.BOS = l.Tokenizer.Token(first.IDs[0])
		}
		return nil
	}
	if template == "" {
		return nil
	}
	missing := missingToken(l.Tokenizer, l.Template)
	if missing == "" {
		return nil
	}
	var others []string
	for _, name := range chat.Names() {
		if template, err := chat.ByName(name); err == nil && missingToken(l.Tokenizer, template) == "" {
			others = append(others, name)
		}
	}
	return fmt.Errorf("--template %s: the vocabulary of %s has no token %s, which this template needs: use one of %s",
		template, model, missing, strings.Join(others, ", "))
}

// lacks returns the token of a family that a vocabulary does not have, the one that begins a text or ends an answer; ""
// if both are there.
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

// Apply makes a model's small files say what this language is, so that whoever opens them, or what Save makes of them,
// asks in the same form. Files that say it already stay as they are. changed is false then.
func (l Codec) Apply(c *hf.Checkpoint) (changed bool, err error) {
	if own, err := chat.Detect(c.Tokenizer.ChatTemplate); err == nil && own.Name == l.Template.Name {
		return false, nil
	}
	end, ok := l.Tokenizer.TokenID(l.Template.EndOfTurn())
	if !ok {
		end = -1
	}
	return true, c.SetTemplate(hf.ChatTemplate{Jinja: l.Template.Jinja(), BOS: l.Template.BOS, EOS: l.Template.EOS, End: end})
}

// pickFamily chooses the chat template.
func pickTemplate(c *hf.Checkpoint, name string) (template chat.Template, err error) {
	if name != "" {
		template, err = chat.ByName(name)
	} else {
		template, err = chat.Detect(c.Tokenizer.ChatTemplate)
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
	return template, nil
}

// compare finds out that a tokenizer belongs to another model: it has ids that the model has no embedding for, lacks the
// tokens that end the model's answers, or is less than half as large. (Embeddings are often somewhat larger than the
// vocabulary, for the sake of round sizes.)
func checkTokenizer(t *tokenizer.Tokenizer, c *hf.Checkpoint) error {
	vocab := c.Config.Vocab
	switch {
	case int(t.MaxID()) >= vocab:
		return fmt.Errorf("its ids go up to %d, and the model has embeddings for %d", t.MaxID(), vocab)
	case 2*t.VocabSize() < vocab:
		return fmt.Errorf("it has %d tokens, and the model has embeddings for %d", t.VocabSize(), vocab)
	}
	for _, id := range c.Generation.EOS {
		if t.Token(id) == "" {
			return fmt.Errorf("it has no token %d, with which the model ends an answer", id)
		}
	}
	return nil
}
