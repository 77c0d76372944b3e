package infer

import (
	"errors"
	"fmt"
	"io/fs"

	"restyle/chat"
	"restyle/hf"
	"restyle/tokenizer"
)

// A Language is how text goes into a model and comes out of it.
type Language struct {
	Tokenizer *tokenizer.Tokenizer
	Family    chat.Family // the chat template, with the BOS and EOS of the model's tokenizer
	Ends      []int32     // tokens that end an answer
}

// LanguageOf reads the language of a model from its files: tokenizer.json, the chat template or, where template is not
// empty, the family of that name (chat.Names), and the tokens that end an answer. A tokenizer that is not the model's is
// refused.
func LanguageOf(c *hf.Checkpoint, template string) (l Language, err error) {
	if l.Family, err = pickFamily(c, template); err != nil {
		return l, err
	}
	data, err := c.ReadFile("tokenizer.json")
	if errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("%s has no tokenizer.json, without which nothing can be asked: "+
			"get the file from the model's repository, or save it with transformers (AutoTokenizer.from_pretrained, save_pretrained)", c.Name)
	}
	if err != nil {
		return l, err
	}
	if l.Tokenizer, err = tokenizer.Parse(data); err != nil {
		return l, fmt.Errorf("tokenizer.json of %s: %w", c.Name, err)
	}
	if err := compare(l.Tokenizer, c); err != nil {
		return l, fmt.Errorf("tokenizer.json of %s is not the tokenizer of this model: %w; take it and the weights from the same place", c.Name, err)
	}
	l.Ends = c.Generation.EOS
	for _, text := range l.Family.Stops() {
		if id, ok := l.Tokenizer.TokenID(text); ok {
			l.Ends = append(l.Ends[:len(l.Ends):len(l.Ends)], id)
		}
	}
	return l, nil
}

// pickFamily chooses the chat template.
func pickFamily(c *hf.Checkpoint, name string) (f chat.Family, err error) {
	if name != "" {
		f, err = chat.ByName(name)
	} else {
		f, err = chat.Detect(c.Tokenizer.ChatTemplate)
	}
	if err != nil {
		return f, err
	}
	if c.Tokenizer.BOS != "" {
		f.BOS = c.Tokenizer.BOS
	}
	if c.Tokenizer.EOS != "" {
		f.EOS = c.Tokenizer.EOS
	}
	return f, nil
}

// compare finds out that a tokenizer belongs to another model: it has ids that the model has no embedding for, lacks the
// tokens that end the model's answers, or is less than half as large. (Embeddings are often somewhat larger than the
// vocabulary, for the sake of round sizes.)
func compare(t *tokenizer.Tokenizer, c *hf.Checkpoint) error {
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
