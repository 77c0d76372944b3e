package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"restyle/chat"
	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/training"
	"restyle/hf"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/models"
	"restyle/tokenizer"
)

// openBase opens the model to start from, and t.adapter if that is one. It reads the small files; the weights are read
// later.
func (t *train) openBase(ctx context.Context) (c *hf.Checkpoint, err error) {
	if t.fromScratch != "" {
		return t.newModel(ctx)
	}
	if hf.IsModel(t.model) { // even if there is an adapter as well
		c, err = models.Open(ctx, t.hub(), t.model)
	} else {
		c, t.adapter, err = models.OpenTuned(ctx, t.hub(), t.model, t.baseModel)
	}
	t.opened = true
	switch {
	case err != nil:
		return nil, err
	case t.adapter != nil:
		err = t.adopt(c)
	case t.baseModel != "":
		err = cli.Usagef("--base is for adapters, and %s is a whole model: leave it out", t.model)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(), t.adapter.Close())
	}
	return c, nil
}

func (t *train) hub() *hub.Hub {
	h := hub.FromEnv()
	h.Offline = h.Offline || t.offline
	h.Waiting = func(message string) { t.note("%s", message) }
	h.Progress = func(p hub.Progress) { t.status.DrawUntil(p.Done == p.Total, p.String()) }
	return h
}

// endOfText, turnStart and turnEnd are the special tokens of a new model, the last ones of its vocabulary: the end of a
// text, and ChatML's two.
const endOfText, turnStart, turnEnd = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

// newModel returns a new model: the given config, and a tokenizer that is given or made from the data.
func (t *train) newModel(ctx context.Context) (*hf.Checkpoint, error) {
	config, err := readShape(t.fromScratch)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"config.json": config}
	where, given := t.fromScratch, false
	if info, err := os.Stat(where); err == nil && !info.IsDir() {
		where = filepath.Dir(where)
	}
	if t.tokenizer != "" {
		if where, given = t.tokenizer, true; filepath.Ext(where) == ".json" {
			where = filepath.Dir(where)
		}
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
		"added_tokens.json", "chat_template.jinja", "generation_config.json"} {
		data, err := fs.ReadFile(hf.DirFS(where), name)
		switch {
		case err == nil:
			files[name] = data
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("--from-scratch: %w", err)
		case name == "tokenizer.json" && given:
			return nil, fmt.Errorf("--tokenizer: there is no tokenizer.json in %s", where)
		}
	}
	if files["tokenizer.json"] == nil || t.vocab == "chars" {
		delete(files, "special_tokens_map.json") // the tokens of another vocabulary
		delete(files, "added_tokens.json")
		if err := t.newTokenizer(ctx, files); err != nil {
			return nil, err
		}
	}
	c, err := hf.NewModel(files)
	if err != nil {
		return nil, fmt.Errorf("--from-scratch %s: %w", t.fromScratch, err)
	}
	return c, nil
}

// newTokenizer makes a vocabulary of the config's size from the data, and sets the tokens that end a text in the
// config.
func (t *train) newTokenizer(ctx context.Context, files map[string][]byte) error {
	c, err := hf.ParseConfig(files["config.json"])
	if err != nil {
		return fmt.Errorf("--from-scratch %s: %w", t.fromScratch, err)
	}
	if t.vocab == "chars" {
		return t.newCharacters(ctx, files, c.MaxPositions)
	}
	t.note("making a vocabulary of %d tokens from the data", c.Vocab)
	special := []string{endOfText, turnStart, turnEnd}
	var failed error
	file, err := tokenizer.Train(t.texts(ctx, &failed), tokenizer.TrainOptions{
		VocabSize: c.Vocab, Pattern: tokenizer.Llama3Pattern, SingleDigits: true, Special: special,
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("--from-scratch %s: vocab_size %d: %w", t.fromScratch, c.Vocab, err)
	}
	tok, err := tokenizer.Parse(file)
	if err != nil {
		return err
	}
	if int(tok.MaxID()) >= c.Vocab {
		return fmt.Errorf("--from-scratch %s: vocab_size is %d, and the smallest vocabulary has %d tokens: 256 bytes and "+
			"%d special ones", t.fromScratch, c.Vocab, tok.VocabSize(), len(special))
	}
	if 2*tok.VocabSize() < c.Vocab { // as a model and its tokenizer must not be
		return fmt.Errorf("--from-scratch %s: vocab_size is %d, and the data is enough for only %d tokens: set vocab_size "+
			"to at most that, or give more data with --vocab-data; for characters, there is --vocab chars", t.fromScratch,
			c.Vocab, tok.VocabSize())
	}
	end, _ := tok.TokenID(turnEnd)
	text, _ := tok.TokenID(endOfText)
	settings := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": turnEnd, "pad_token": endOfText,
		"clean_up_tokenization_spaces": false, "model_max_length": c.MaxPositions}
	ends := []int32{end, text}
	if t.onlyText { // it continues texts and answers no questions
		settings["eos_token"], ends = endOfText, []int32{text}
	} else {
		chatml, err := chat.ByName("chatml")
		if err != nil {
			return err
		}
		settings["chat_template"] = chatml.Jinja()
		files["chat_template.jinja"] = []byte(chatml.Jinja()) // newer programs look for the template here
	}
	files["tokenizer.json"] = file
	return settle(files, map[string]any{"bos_token_id": nil, "eos_token_id": ends[0], "pad_token_id": text},
		settings, map[string]any{"eos_token_id": ends, "pad_token_id": text})
}

// newCharacters makes a vocabulary of the characters of the text, without special tokens: nothing ends an answer.
func (t *train) newCharacters(ctx context.Context, files map[string][]byte, positions int) error {
	var failed error
	file, err := tokenizer.Characters(func(yield func(string) bool) {
		for text := range t.texts(ctx, &failed) {
			if !yield(strings.TrimPrefix(text, "\ufeff")) { // a byte-order mark is no character
				return
			}
		}
	})
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	tok, err := tokenizer.Parse(file)
	if err != nil {
		return err
	}
	t.note("a vocabulary of %d characters", tok.VocabSize())
	files["tokenizer.json"] = file
	delete(files, "chat_template.jinja")
	return settle(files, map[string]any{"vocab_size": tok.VocabSize(), "bos_token_id": nil, "eos_token_id": nil,
		"pad_token_id": nil},
		map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
			"model_max_length": positions},
		map[string]any{"eos_token_id": nil})
}

// settle sets keys of config.json, and writes tokenizer_config.json and generation_config.json.
func settle(files map[string][]byte, config, settings, generation map[string]any) error {
	var whole map[string]any
	if err := json.Unmarshal(files["config.json"], &whole); err != nil {
		return err
	}
	maps.Copy(whole, config)
	for name, v := range map[string]any{"config.json": whole, "tokenizer_config.json": settings,
		"generation_config.json": generation} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		files[name] = append(data, '\n')
	}
	return nil
}

// texts yields the texts that a vocabulary is made from: the plain text, or all messages of --data and --vocab-data. An
// error ends it, and is stored in failed.
func (t *train) texts(ctx context.Context, failed *error) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, path := range t.text {
			text, err := disk.ReadInput(path, training.MaxText)
			if *failed = err; err != nil || !yield(string(text)) {
				return
			}
		}
		if len(t.text) > 0 {
			return
		}
		sources := t.sources()
		if t.vocabData != "" {
			sources = append(sources, source{spec: t.vocabData})
		}
		for _, s := range sources {
			source, err := t.open(ctx, s)
			for err == nil {
				var c dataset.Conversation
				if c, err = source.Next(); err != nil {
					break
				}
				for _, m := range append(c.Messages, chat.Message{Content: c.Text}) {
					if m.Content != "" && !yield(m.Content) {
						err = io.EOF
						break
					}
				}
			}
			if source != nil {
				source.Close()
			}
			if err != io.EOF {
				*failed = err
				return
			}
		}
	}
}

// sourceOptions returns the options with which a dataset is opened.
func (t *train) sourceOptions(s source) dataset.Options {
	return dataset.Options{Split: t.split, Columns: s.columns, Starter: data.Starter, Hub: t.hub()}
}

// open opens a dataset.
func (t *train) open(ctx context.Context, s source) (*dataset.Conversations, error) {
	return dataset.OpenConversations(ctx, s.spec, t.sourceOptions(s))
}

// holdsText reports whether all data is plain text. Reading it reports whatever is wrong with it.
func (t *train) holdsText(ctx context.Context) bool {
	if len(t.text) > 0 {
		return true
	}
	for _, s := range t.sources() {
		c, err := t.open(ctx, s)
		if err != nil {
			return false
		}
		c.Close()
		if !c.Text {
			return false
		}
	}
	return true
}

// readData reads and encodes the data.
func (t *train) readData(ctx context.Context, codec infer.Codec) (*training.Set, *training.Encoder, error) {
	e := &training.Encoder{Tokenizer: codec.Tokenizer, Template: codec.Template, Seq: t.config.Seq,
		All: t.trainOn == "all"}
	var sets []*training.Set
	for _, path := range t.text {
		s, err := training.LoadText(ctx, path, e)
		if err != nil {
			return nil, nil, err
		}
		sets = append(sets, s)
	}
	if len(sets) > 0 {
		return training.Join(sets...), e, nil
	}
	sources := t.sources()
	sets = make([]*training.Set, len(sources))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0)) // much of reading a file keeps only one core busy
	for i, of := range sources {
		group.Go(func() (err error) {
			sets[i], err = training.Load(ctx, of.spec, t.sourceOptions(of), e)
			if len(t.data.Files) == 0 && errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: make it with %s, or name another dataset with --data", err, cli.Command("gen"))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return training.Join(sets...), e, nil
}
