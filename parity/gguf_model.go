package parity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"restyle/chat"
	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// models compares the GGUF files of a model: what is in them, what they compute, and the tokens of texts.
func (q *ggufFolder) models() error {
	ck, err := hf.OpenModel(q.dir)
	if err != nil {
		return err
	}
	defer ck.Close()
	ids, _ := q.g.ints("input_ids")
	q.strike(q.g.key("input_ids"), input)
	batch := model.Batch{}
	for _, id := range ids {
		batch.IDs = append(batch.IDs, int32(id))
	}
	if len(ids) == 0 {
		return errors.Join(errors.New("input_ids is empty"), q.g.err)
	}
	for _, name := range q.j.under("files.") {
		if err := errors.Join(q.ctx.Err(), q.file(ck, name, batch)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if q.j.hasAny("texts.") {
		return q.texts(ck)
	}
	return nil
}

// file compares one file with ours, and what it computes. If it is not stored, ours takes its place.
func (q *ggufFolder) file(ck *hf.Checkpoint, name string, batch model.Batch) error {
	q.run = ""
	at := "files." + name + "."
	if err := q.types(at+"content.", name, ck.Config); err != nil {
		return err
	}
	for _, of := range []string{"logits_error", "from_first", "llama_cpp", "llama_cpp_largest", "largest_logit"} {
		q.j.strike(at+of, yardstick)
	}
	from := requantized
	if mix, err := gguf.ParseMix(name); err == nil && !quantizes(mix) || name == "q8_0" && q.j.hasAny("files.f32.") {
		from = converted // llama_k's q8_0 is of llama-quantize
	}
	path := filepath.Join(q.temp, name+".gguf")
	err := q.save(ck, name, path)
	if err == nil {
		err = q.contentOf(at+"content.", path, from)
	}
	if err == nil && q.hasFile(name+".gguf") {
		path = q.path(name + ".gguf")
		err = q.stored(at+"content.", name+".gguf")
	}
	if err != nil {
		return err
	}
	opened, err := hf.OpenGGUF(path)
	if err != nil {
		return err
	}
	defer opened.Close()
	ways := []model.Quantization{{}} // values of blocks, and the blocks themselves
	if !opened.Quantization.None() {
		ways = append(ways, opened.Quantization)
	}
	for _, fused := range q.o.Fused {
		q.d.SetFused(fused)
		for i, way := range ways {
			q.computedIn(tensor.F32, fused)
			q.run += ", " + name + []string{"", " in blocks"}[i]
			if err := q.computed(opened, way, name, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// quantizes reports whether a preset has blocks.
func quantizes(m gguf.Mix) bool {
	n, _ := m.Type.Block()
	return n > 1
}

// save writes a model by a preset.
func (q *ggufFolder) save(ck *hf.Checkpoint, preset, path string) error {
	mix, err := gguf.ParseMix(preset)
	if err != nil {
		return err
	}
	tensors, err := hf.Merge{Base: ck, DType: tensor.F32, Threads: q.o.Threads}.Tensors(q.ctx)
	if err != nil {
		return err
	}
	_, err = hf.SaveGGUF(path, ck, tensors, hf.GGUFOptions{Mix: mix})
	return err
}

// types compares the types of a file's tensors with those that a preset gives them.
func (q *ggufFolder) types(at, preset string, c model.Config) error {
	mix, err := gguf.ParseMix(preset)
	if err != nil {
		return err
	}
	m := gguf.Model{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, Tied: c.Tied}
	q.j.get(at+"kv.general.architecture.value", &m.Architecture)
	if q.o.mistake.mix != nil {
		q.o.mistake.mix(&m)
	}
	for i := range q.j.under(at + "tensors.") {
		at := fmt.Sprintf("%stensors.%d.", at, i)
		var name, want string
		var dims []int
		if q.j.get(at+"name", &name) && q.j.get(at+"dims", &dims) && q.j.get(at+"type", &want) {
			got := mix.TypeOf(m, name, dims)
			q.compare("types by the preset", q.j.key(at+"type"), differ(got.String() == want), exact)
		}
	}
	return nil
}

// computed compares logits and greedy continuations of a file's model.
func (q *ggufFolder) computed(ck *hf.Checkpoint, way model.Quantization, name string, batch model.Batch) (err error) {
	m, err := model.New(q.d, q.config(ck.Config), model.Options{DType: tensor.F32, MaxTokens: len(batch.IDs),
		Quantization: way})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := ck.Load(context.Background(), q.d, m.Params(), nil); err != nil {
		return err
	}
	if q.o.mistake.weights != nil && way.None() {
		q.o.mistake.weights(q.d, m)
	}
	var logits []float32
	if err := m.Logits(batch, func(_ int, row []float32) { logits = append(logits, row...) }); err != nil {
		return err
	}
	key := "logits." + name
	q.compare("logits", q.g.key(key), byNorm(logits, q.g.floats(key)), limitOutput)
	for i := range q.j.under("files." + name + ".greedy.") {
		if err := q.greedy(m, fmt.Sprintf("files.%s.greedy.%d.", name, i)); err != nil {
			return err
		}
	}
	return nil
}

// greedy continues a prompt.
func (q *ggufFolder) greedy(m *model.Model, at string) error {
	var prompt, tokens, ids []int32
	q.j.get(at+"prompt", &prompt)
	q.j.get(at+"tokens", &tokens)
	q.j.strike(at+"prompt", input)
	q.j.strike(at+"llama_cpp", yardstick)
	if len(prompt) == 0 || len(tokens) == 0 {
		return fmt.Errorf("%s has no prompt or no tokens", at)
	}
	c, err := m.NewKVCache(len(prompt) + len(tokens))
	if err != nil {
		return err
	}
	margin := math.Inf(1)
	logits, err := m.Extend(c, prompt)
	for err == nil && len(ids) < len(tokens) {
		best, gap := topTwo(logits)
		ids, margin = append(ids, best), min(margin, gap)
		logits, err = m.Extend(c, []int32{best})
	}
	q.compare("greedy ids", q.j.key(at+"tokens"), differing(ids, tokens), exact)
	q.j.compareAbsolute("greedy margins", at+"smallest_margin", margin, limitGap)
	return errors.Join(err, c.Close())
}

// texts compares the tokens of texts and of a conversation, by the model's files and by those that are made of each
// GGUF file.
func (q *ggufFolder) texts(ck *hf.Checkpoint) error {
	if err := q.tokens(ck, "tokenizer.json"); err != nil {
		return err
	}
	for _, name := range q.j.under("files.") {
		paths := []string{filepath.Join(q.temp, name+".gguf")}
		if q.hasFile(name + ".gguf") {
			paths = append(paths, q.path(name+".gguf"))
		}
		for i, path := range paths {
			opened, err := hf.OpenGGUF(path)
			if err == nil {
				err = errors.Join(q.tokens(opened, name+[]string{", ours", ""}[i]), opened.Close())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *ggufFolder) tokens(ck *hf.Checkpoint, run string) error {
	q.run = run
	codec, err := infer.CodecOf(ck, "")
	if err != nil {
		return err
	}
	encoded := func(figure, at, text string, special bool) {
		var want []int32
		q.j.get(at, &want)
		o := tokenizer.EncodeOptions{AddSpecial: special, Special: tokenizer.Everywhere}
		q.compare(figure, q.j.key(at), differ(slices.Equal(codec.Tokenizer.Encode(text, o).IDs, want)), exact)
	}
	for i := range q.j.under("texts.") {
		at := fmt.Sprintf("texts.%d.", i)
		var text string
		q.j.get(at+"text", &text)
		q.j.strike(at+"text", input)
		encoded("ids", at+"ids", text, false)
		encoded("ids with special tokens added", at+"ids_special", text, true)
	}
	var messages []chat.Message
	for i := range q.j.under("chat.messages.") {
		at := fmt.Sprintf("chat.messages.%d.", i)
		var m chat.Message
		q.j.get(at+"role", &m.Role)
		q.j.get(at+"content", &m.Content)
		q.j.strikeAll(at, input)
		messages = append(messages, m)
	}
	rendered, err := codec.Template.Render(messages, chat.Options{AddGenerationPrompt: true})
	if err != nil {
		return err
	}
	var text string
	q.j.get("chat.text", &text)
	q.compare("chat", q.j.key("chat.text"), differ(rendered.Text == text), exact)
	encoded("ids of the chat", "chat.ids", text, false)
	return nil
}
