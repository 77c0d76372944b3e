package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"restyle/data"
	"restyle/gguf"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/model"
	"restyle/tensor"
	"restyle/tokenizer"
)

// probes are texts that tokenizers split in different ways: at digits, white space, signs, scripts and emoji.
var probes = []string{"Hello, world!", "hello world", " leading", "trailing ", "a  b   c    d", "tab\tand\nline\r\nend",
	"\n\n\n", "   \n  x", "1", "12", "123", "1234567890", "3.14159", "1,000,000.50", "x=1;y=22;z=333",
	"don't we'll I'M YOU'RE",
	"def f(x):\n    return x**2  # square", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
	"https://example.com/a?b=c&d=%20",
	"snake_case camelCase PascalCase", "naïve café Ærøskøbing Straße", "Привет, мир!", "你好，世界", "こんにちは世界", "مرحبا بالعالم",
	"नमस्ते दुनिया", "สวัสดีชาวโลก", "😀 👩‍👩‍👧 🇩🇪", "<|im_start|>user\nhi<|im_end|>", "!@#$%^&*()_+-=[]{}|;':\",./<>?"}

// mostKL has the maximum mean divergence of a file's predictions from the model's by type, in nats per token: a few
// times what good files of small models have.
var mostKL = map[gguf.Type]float64{gguf.F32: 0.01, gguf.F16: 0.01, gguf.BF16: 0.02, gguf.Q8_0: 0.03, gguf.Q6_K: 0.1,
	gguf.Q5_K: 0.2, gguf.Q4_K: 0.6, gguf.Q4_0: 0.8}

// comparedBytes limits the log-probabilities that are kept to be compared.
const comparedBytes, comparedTokens = 128 << 20, 512

// checkFile compares a file with the model whose weights are tensors, and prints the results. If they differ too much,
// or cannot be compared, it renames the file and returns an error.
func (o options) checkFile(ctx context.Context, d *kernels.Device, c *hf.Checkpoint, tensors []hf.TensorData,
	path string, mix gguf.Mix, stdout io.Writer, show *cli.Progress) error {
	w := &checklist{out: stdout}
	back, err := hf.OpenGGUF(path)
	if err == nil {
		defer back.Close()
		w.files(c, back, path)
		err = o.checkWeights(ctx, d, c, back, tensors, mix, w, show)
	}
	show.Line.Clear()
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), os.Remove(path))
	case err == nil && w.wrong == nil:
		return nil
	}
	aside := strings.TrimSuffix(path, unchecked) + failed
	if rename := disk.Rename(path, aside); rename != nil {
		aside = path
	}
	if w.wrong != nil {
		return fmt.Errorf("the file that was written is not the model: %s: it is kept as %s", strings.Join(w.wrong, "; "),
			aside)
	}
	return fmt.Errorf("the file is complete, but could not be compared with the model: %w: it is kept as %s; "+
		"--check=false writes it without comparing", err, aside)
}

// A checklist prints what is compared, and collects what is wrong.
type checklist struct {
	out   io.Writer
	wrong []string
}

// line prints a line, and keeps it if it is wrong.
func (w *checklist) line(right bool, what, format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	mark := "ok"
	if !right {
		mark = "WRONG"
		w.wrong = append(w.wrong, what+": "+text)
	}
	fmt.Fprintf(w.out, "check  %-14s %-5s  %s\n", what, mark, text)
}

// files compares the tokenizers, chat templates and ends of answers.
func (w *checklist) files(c, back *hf.Checkpoint, path string) {
	own, err := tokenizer.Read(c.ReadFile)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(w.out, "check  tokenizer      none   the model has no tokenizer.json")
		return
	}
	if err != nil {
		w.line(false, "tokenizer", "the model's own: %v", err)
		return
	}
	kept, err := tokenizer.Read(back.ReadFile)
	if err != nil {
		w.line(false, "tokenizer", "the file's: %v", err)
		return
	}
	n := sameIDs(own, kept)
	w.line(n == len(probes), "tokens", "%d of %d texts become the same", n, len(probes))
	var plain *tokenizer.Tokenizer
	files, err := hf.GGUFTokenizer(path)
	if err == nil {
		plain, err = tokenizer.Parse(files["tokenizer.json"])
	}
	if err != nil {
		w.line(false, "llama.cpp", "the file's tokens cannot be read without its tokenizer.json: %v", err)
		return
	}
	mark := "ok"
	if n = sameIDs(own, plain); n < len(probes) {
		mark = "note" // which SaveGGUF explains
	}
	fmt.Fprintf(w.out, "check  llama.cpp      %-5s  %d of %d texts become the same by llama.cpp's rules\n", mark, n,
		len(probes))
	same := back.Tokenizer.ChatTemplate == c.Tokenizer.ChatTemplate
	for name, text := range c.Tokenizer.ChatTemplates {
		same = same && (name == hf.DefaultTemplate || back.Tokenizer.ChatTemplates[name] == text)
	}
	w.line(same, "chat template", "%d bytes, the model's has %d", len(back.Tokenizer.ChatTemplate),
		len(c.Tokenizer.ChatTemplate))
	codec, err := infer.CodecOf(c, "")
	ends := c.Generation.EOS
	if err == nil {
		ends = codec.Ends
	}
	ends = slices.Clone(ends)
	slices.Sort(ends)
	ends = slices.Compact(ends)
	known := func(id int32) bool { return slices.Contains(back.Generation.EOS, id) }
	missing := slices.DeleteFunc(slices.Clone(ends), known)
	w.line(len(missing) == 0, "ends", "tokens %v end an answer, the model's are %v", back.Generation.EOS, ends)
}

// sameIDs counts the probes that both tokenizers turn into the same tokens.
func sameIDs(a, b *tokenizer.Tokenizer) (n int) {
	for _, text := range probes {
		same := true
		for _, special := range []bool{false, true} {
			o := tokenizer.EncodeOptions{AddSpecial: special}
			same = same && slices.Equal(a.Encode(text, o).IDs, b.Encode(text, o).IDs)
		}
		if same {
			n++
		}
	}
	return n
}

// mostOff returns the maximum distance of a weight in the file from the model's, as a share of its norm. A weight in
// the wrong place is off by more than 1, and rounding by a tenth of the limit, or by half of it in four bits.
func mostOff(t tensor.DType, stored string) float64 {
	switch {
	case t.Quantized():
		return 0.4
	case stored == "F32":
		return 0
	}
	return 0.02
}

// checkWeights compares the weights one by one, and then the predictions of the model and the file, for the tokens of
// reference answers.
func (o options) checkWeights(ctx context.Context, d *kernels.Device, c, back *hf.Checkpoint, tensors []hf.TensorData,
	mix gguf.Mix, w *checklist, show *cli.Progress) error {
	texts, what, err := o.compared(ctx, c)
	if err != nil {
		return err
	}
	config := c.Config
	config.Tied = back.Config.Tied
	most := 0
	for _, b := range texts {
		most = max(most, len(b.IDs))
	}
	t := c.DType()
	var want [][]float32
	err = withModel(d, config, model.Options{DType: t, MaxTokens: most}, func(m *model.Model) error {
		if err := fillFrom(ctx, m, tensors, back, w, show); err != nil {
			return err
		}
		return predictions(m, texts, func(_ int, logits []float32) { want = append(want, logProbabilities(logits)) })
	})
	if err != nil {
		return err
	}
	sum, same, n := 0.0, 0, 0
	options := model.Options{DType: t, MaxTokens: most, Quantization: back.Quantization}
	err = withModel(d, back.Config, options, func(m *model.Model) error {
		if err := back.Load(ctx, d, m.Params(), func(done, total int64) {
			show.Draw("reading back", "", float64(done)/float64(total))
		}); err != nil {
			return err
		}
		return predictions(m, texts, func(i int, logits []float32) {
			sum += divergence(want[i], logProbabilities(logits))
			if argmax(want[i]) == argmax(logits) {
				same++
			}
			n++
		})
	})
	if err != nil {
		return err
	}
	show.Line.Clear()
	kl := sum / float64(n)
	w.line(kl <= mostKL[mix.Type], "predictions", "of %d tokens of %s: KL divergence %.4f nats a token (at most %.2f), "+
		"the same most probable token %.1f%%", n, what, kl, mostKL[mix.Type], 100*float64(same)/float64(n))
	return nil
}

// compared returns texts to be predicted: reference answers, or random tokens if the model cannot read them. None is
// longer than the model's sliding window, because the file's attention has none.
func (o options) compared(ctx context.Context, c *hf.Checkpoint) (texts []model.Batch, what string, err error) {
	limit := max(1, min(comparedTokens, comparedBytes/(4*c.Config.Vocab)))
	longest := limit
	if c.Config.Window > 0 {
		longest = min(limit, c.Config.Window)
	}
	questions, err := data.Questions()
	if err != nil {
		return nil, "", err
	}
	t, err := o.texts(ctx, c, questions)
	if err != nil {
		return nil, "", err
	}
	if t.unmeasured != nil {
		random := rand.New(rand.NewPCG(1, 2))
		ids := make([]int32, min(longest, 64, c.Config.Positions()))
		for i := range ids {
			ids[i] = int32(random.IntN(c.Config.Vocab))
		}
		return []model.Batch{{IDs: ids}}, "random text", nil
	}
	for _, b := range t.answers {
		n := min(len(b.IDs), limit, longest)
		if limit -= n; n == 0 {
			break
		}
		texts = append(texts, model.Batch{IDs: b.IDs[:n]})
	}
	return texts, "reference answers", nil
}

// withModel calls f with a new model.
func withModel(d *kernels.Device, c model.Config, o model.Options, f func(m *model.Model) error) error {
	m, err := model.New(d, c, o)
	if err != nil {
		return err
	}
	return errors.Join(f(m), m.Close())
}

// fillFrom fills a model with weights as they are before they are written, and compares each with the file's.
func fillFrom(ctx context.Context, m *model.Model, tensors []hf.TensorData, back *hf.Checkpoint, w *checklist,
	show *cli.Progress) error {
	farthest, most, wrong := "", -1.0, []string(nil)
	by := map[string]hf.TensorData{}
	for _, t := range tensors {
		by[t.Name] = t
	}
	for i, p := range m.Params() {
		if err := ctx.Err(); err != nil {
			return err
		}
		show.Draw("reading the model", p.Name, float64(i)/float64(len(m.Params())))
		t, ok := by[p.Name]
		if !ok {
			return fmt.Errorf("there are no weights %s", p.Name)
		}
		values, err := t.Floats()
		if err != nil {
			return err
		}
		m.Device().Upload(p.W, values)
		got, _, err := back.ReadF32(p.Name)
		if err != nil {
			return err
		}
		off := relative(got, values)
		if off > most {
			farthest, most = p.Name, off
		}
		info, _ := back.Tensor(p.Name)
		if !(off <= mostOff(back.Quantization.Weights[p.Name], info.DType)) {
			wrong = append(wrong, p.Name)
		}
	}
	if wrong != nil {
		w.line(false, "weights", "%d are not the model's, such as %s", len(wrong), wrong[0])
	} else {
		w.line(true, "weights", "%d, the farthest by %.2g of its norm (%s)", len(tensors), most, farthest)
	}
	return m.Device().Err()
}

// predictions calls f with the logits after each token of texts, counted through all of them.
func predictions(m *model.Model, texts []model.Batch, f func(i int, logits []float32)) error {
	n := 0
	for _, b := range texts {
		if err := m.Logits(b, func(i int, logits []float32) { f(n+i, logits) }); err != nil {
			return err
		}
		n += len(b.IDs)
	}
	return nil
}

// logProbabilities returns the logarithms of softmax.
func logProbabilities(logits []float32) []float32 {
	most, sum := float64(slices.Max(logits)), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	list := make([]float32, len(logits))
	for i, x := range logits {
		list[i] = float32(float64(x) - most - math.Log(sum))
	}
	return list
}

// divergence returns the Kullback-Leibler divergence of q from p, in nats; both are logarithms.
func divergence(p, q []float32) (sum float64) {
	for i := range p {
		sum += math.Exp(float64(p[i])) * (float64(p[i]) - float64(q[i]))
	}
	return sum
}

// relative returns ‖got - want‖ / ‖want‖, or ‖got‖ if want is 0.
func relative(got, want []float32) float64 {
	off, all := 0.0, 0.0
	for i := range want {
		e := float64(got[i]) - float64(want[i])
		off, all = off+e*e, all+float64(want[i])*float64(want[i])
	}
	if all == 0 {
		return math.Sqrt(off)
	}
	return math.Sqrt(off / all)
}

func argmax(x []float32) (at int) {
	for i := range x {
		if x[i] > x[at] {
			at = i
		}
	}
	return at
}
