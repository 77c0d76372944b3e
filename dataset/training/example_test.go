package training

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/tokenizer"
)

// markup has the special tokens of all templates.
var markup = []string{
	"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
	"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "[INST]", "[/INST]", "<bos>", "<eos>", "<start_of_turn>",
	"<end_of_turn>",
}

// small makes a tokenizer with tokens that span the end of a line, as large vocabularies have. It puts a BOS before a
// text.
var small = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return train("<|begin_of_text|>") })

func train(bos string) (*tokenizer.Tokenizer, error) {
	text := strings.Repeat("So\n \nWhat is it?\n\nIt is what it is.\n\n\nassistant\n\n  user\n def f(x):\n\n    return "+
		"x\n\nSo?\n", 20)
	data, err := tokenizer.Train(iter.Seq[string](func(yield func(string) bool) { yield(text) }), tokenizer.TrainOptions{
		VocabSize: 400, Special: markup, BOS: bos,
	})
	if err != nil {
		return nil, err
	}
	return tokenizer.Parse(data)
}

// encoderOf returns an encoder with the tokenizer small.
func encoderOf(t testing.TB, family string) *Encoder {
	t.Helper()
	tok, err := small()
	expect.OK(t, err)
	f, err := chat.ByName(family)
	expect.OK(t, err)
	if family == "raw" {
		f.EOS = "<|end_of_text|>"
	}
	return &Encoder{Tokenizer: tok, Template: f, Seq: 10000}
}

// talk makes messages from texts, each after a letter for its role: "s" for system, "u" for user, "a" for assistant.
func talk(said ...string) []chat.Message {
	roles := map[byte]string{'s': "system", 'u': "user", 'a': "assistant", 't': "tool"}
	var messages []chat.Message
	for _, s := range said {
		messages = append(messages, chat.Message{Role: roles[s[0]], Content: s[1:]})
	}
	return messages
}

// marked returns the text of an example with its targets in brackets.
func marked(e *Encoder, ex Example) string {
	var b strings.Builder
	learned := false
	for i, id := range ex.IDs {
		if now := ex.Labels[i] != Ignore; now != learned {
			b.WriteString(map[bool]string{true: "⟦", false: "⟧"}[now])
			learned = now
		}
		b.Write(e.Tokenizer.Bytes(id))
	}
	if learned {
		b.WriteString("⟧")
	}
	return b.String()
}

// TestMasks_OfEveryTemplate checks which tokens of a conversation are targets, for every template.
func TestMasks_OfEveryTemplate(t *testing.T) {
	for _, c := range expect.Cases(t, "testdata/masks.txt", "said", "loss", "want") {
		t.Run(c.Name, func(t *testing.T) {
			var messages []chat.Message
			for _, said := range c.All("said") {
				role, content, _ := strings.Cut(said, ": ")
				messages = append(messages, chat.Message{Role: role, Content: content})
			}
			family, _, _ := strings.Cut(c.Name, ": ")
			e := encoderOf(t, family)
			e.All = c.Get("loss") == "all"
			ex, cut, err := e.Encode(dataset.Conversation{Messages: messages, Row: 7})
			if err != nil || cut != 0 || ex.Row != 7 {
				t.Fatalf("row %d, %d cut, %v", ex.Row, cut, err)
			}
			if got, want := marked(e, ex), strings.Join(c.All("want"), ""); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestTypedMarkup_StaysText checks that markup in a message stays text, and that the template's own markup is one
// token.
func TestTypedMarkup_StaysText(t *testing.T) {
	e := encoderOf(t, "llama3")
	ex, _, err := e.Encode(dataset.Conversation{Messages: talk("u<|eot_id|><|begin_of_text|>", "a<|eot_id|>")})
	expect.OK(t, err)
	counts := map[string]int{}
	for _, id := range ex.IDs {
		counts[e.Tokenizer.Token(id)]++
	}
	if counts["<|eot_id|>"] != 2 || counts["<|begin_of_text|>"] != 1 {
		t.Errorf("%d times <|eot_id|>, %d times <|begin_of_text|>", counts["<|eot_id|>"], counts["<|begin_of_text|>"])
	}
}

// asks returns the prompt that chat gives a model, computed as an engine does.
func asks(e *Encoder, messages []chat.Message) ([]int32, error) {
	o := e.Chat
	o.AddGenerationPrompt = true
	r, err := e.Template.Render(messages, o)
	if err != nil {
		return nil, err
	}
	var special []tokenizer.Span
	for _, s := range r.Markup {
		special = append(special, tokenizer.Span(s))
	}
	return e.Tokenizer.Encode(r.Text, tokenizer.EncodeOptions{AddSpecial: e.Template.Name == chat.Raw().Name,
		Special: special}).IDs, nil
}

// checkExample checks what holds for any question and answer: the first answer follows the prompt that chat gives, and
// the targets are the answer as the template writes it and the token that ends it.
func checkExample(e *Encoder, question, answer string) error {
	messages := talk("u"+question, "a"+answer)
	ex, cut, err := e.Encode(dataset.Conversation{Messages: messages})
	if err != nil {
		return err
	}
	if len(ex.IDs) != len(ex.Labels) || len(ex.IDs) > e.Seq || cut < 0 {
		return fmt.Errorf("%d ids, %d labels, seq %d, %d cut", len(ex.IDs), len(ex.Labels), e.Seq, cut)
	}
	prompt, err := asks(e, messages[:1])
	if err != nil {
		return err
	}
	if len(ex.IDs) == 0 {
		if chat.Strip(answer) != "" && len(prompt) < e.Seq {
			return fmt.Errorf("a prompt of %d tokens leaves nothing of seq %d for %q", len(prompt), e.Seq, answer)
		}
		return nil
	}
	if len(ex.IDs) <= len(prompt) || !slices.Equal(ex.IDs[:len(prompt)], prompt) {
		return fmt.Errorf("the example begins with %q, and chat asks %q", ex.IDs, prompt)
	}
	for i, label := range ex.Labels {
		if want := ex.IDs[i]; i < len(prompt) && label != Ignore || i >= len(prompt) && label != want {
			return fmt.Errorf("label %d is %d in an example of %d tokens, %d of them the prompt", i, label, len(ex.IDs),
				len(prompt))
		}
	}
	r, err := e.Template.Render(messages, e.Chat)
	if err != nil {
		return err
	}
	want := r.Text[r.Targets[0].Start:r.Targets[0].End]
	var learned []byte
	for _, id := range ex.IDs[len(prompt):] {
		learned = append(learned, e.Tokenizer.Bytes(id)...)
	}
	if cut == 0 && string(learned) != want || !strings.HasPrefix(want, string(learned)) {
		return fmt.Errorf("learned is %q, want %q", learned, want)
	}
	end, _ := e.Tokenizer.TokenID(e.Template.EndOfTurn())
	if last := ex.IDs[len(ex.IDs)-1]; (last == end) != (cut == 0) {
		return fmt.Errorf("%d tokens are cut and the last one is %q", cut, e.Tokenizer.Token(last))
	}
	return nil
}

// pieces can be joined into texts whose tokens span the end of a question.
var pieces = []string{"", " ", "  ", "\n", "\n\n", "\n ", "\n  ", "\t", "?", "!\n", "So", "What is it?", "it's", "'",
	"s", "def f(x):\n    return x", "1", "23", "é", "é", "\u0301", "🙂", "東京",
	"<|eot_id|>", "<|im_end|>", "</s>", "\u00a0", "\u2028", "\x00", "\r\n", "<think>", "</think>"}

func TestPromptIsWhatChatAsks(t *testing.T) {
	for _, family := range chat.Names() {
		e := encoderOf(t, family)
		r := rand.New(rand.NewPCG(1, 2))
		text := func() string {
			var b strings.Builder
			for range 1 + r.IntN(4) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			return b.String()
		}
		for _, q := range pieces {
			for _, a := range pieces {
				if err := checkExample(e, q, a); err != nil {
					t.Fatalf("%s, %q, %q: %v", family, q, a, err)
				}
			}
		}
		for range 2000 {
			q, a := text(), text()
			e.Seq = 10000
			if r.IntN(4) == 0 {
				e.Seq = 2 + r.IntN(40)
			}
			if err := checkExample(e, q, a); err != nil {
				t.Fatalf("%s, %q, %q, seq %d: %v", family, q, a, e.Seq, err)
			}
		}
	}
}

// TestUnknownTemplate_RunsAsProgram trains with a template that is run as a program: as with the function that it
// stands for, unless nobody can say what its answers are.
func TestUnknownTemplate_RunsAsProgram(t *testing.T) {
	e := encoderOf(t, "chatml")
	known := e.Template
	messages := talk("sBe brief.", "uSo?<|im_end|>", "aIt is.\n", "uWhy?", "aNo.<|im_end|>")
	want, _, err := e.Encode(dataset.Conversation{Messages: messages})
	expect.OK(t, err)
	for _, c := range []struct{ template, reason string }{
		{known.Jinja() + " ", ""},
		{"{{ messages|length }}" + known.Jinja(), "training: row 3: chat template jinja-"},
	} {
		if e.Template, err = chat.Detect(c.template); err != nil {
			t.Fatal(err)
		}
		e.Template.EOS = known.EOS
		e.All = false
		got, _, err := e.Encode(dataset.Conversation{Messages: messages, Row: 3})
		switch {
		case c.reason == "" && (err != nil || !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Labels, want.Labels)):
			t.Errorf("%s, %v, want %s", marked(e, got), err, marked(e, want))
		case c.reason != "" && (err == nil || !strings.HasPrefix(err.Error(), c.reason)):
			t.Errorf("%v, want %q", err, c.reason)
		}
		e.All = true
		if all, _, err := e.Encode(dataset.Conversation{Messages: messages}); err != nil || all.Targets() != len(all.IDs)-1 {
			t.Errorf("of everything, %d targets of %d tokens, %v", all.Targets(), len(all.IDs), err)
		}
	}
}

// forgetful is a template that writes thoughts only of the last answer, as Qwen3's does.
const forgetful = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}" +
	"{% set said = m.content.split('</think>') %}{% if loop.last %}<think>{{ said[0] if said|length > 1 }}</think>" +
	"{% endif %}" +
	"{{ said[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}" +
	"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

// TestAnswersApart trains with a template that rewrites earlier answers: each answer is an example of its own, exactly
// as chat asks for it and as the template writes it when it is the last.
func TestAnswersApart(t *testing.T) {
	e := encoderOf(t, "chatml")
	template, err := chat.Detect(forgetful)
	expect.OK(t, err)
	template.EOS = "<|im_end|>"
	e.Template = template
	const a, u = "<|im_start|>assistant\n", "<|im_start|>user\n"
	first := u + "So?<|im_end|>\n" + a + "⟦<think>x</think>It is.<|im_end|>⟧"
	second := u + "So?<|im_end|>\n" + a + "It is.<|im_end|>\n" + u + "Is it?<|im_end|>\n" + a +
		"⟦<think></think>Yes.<|im_end|>⟧"
	talked := talk("uSo?", "ax</think>It is.", "uIs it?", "aYes.")
	for _, c := range []struct {
		name  string
		of    dataset.Conversation
		seq   int
		want  []string
		apart bool
	}{
		{"one answer", dataset.Conversation{Messages: talked[:2]}, 500, []string{first}, false},
		{"two answers", dataset.Conversation{Messages: talked}, 500, []string{first, second}, true},
		{"and a question", dataset.Conversation{Messages: append(talked[:4:4], talk("uWhy?")...)}, 500,
			[]string{first, second}, true},
		{"an answer in the prompt", dataset.Conversation{Messages: talked, Prompt: 3}, 500, []string{second}, false},
		{"nothing but a prompt", dataset.Conversation{Messages: talked, Prompt: 4}, 500, nil, false},
		{"an empty answer", dataset.Conversation{Messages: talk("uSo?", "a ", "uIs it?", "aYes.")}, 500, []string{
			u + "So?<|im_end|>\n" + a + " <|im_end|>\n" + u + "Is it?<|im_end|>\n" + a +
				"⟦<think></think>Yes.<|im_end|>⟧"}, true},
		{"room for one", dataset.Conversation{Messages: append(talked[:2:2],
			talk("u"+strings.Repeat("Is it? ", 40), "aYes.")...)}, 60, []string{first}, true},
	} {
		e.Seq = c.seq
		c.of.Row = 5
		r, err := e.row(c.of)
		var got []string
		for _, ex := range r.examples {
			got = append(got, marked(e, ex))
			if ex.Row != 5 || ex.question == 0 || ex.question != r.examples[0].question {
				t.Errorf("%s: row %d, question %d", c.name, ex.Row, ex.question)
			}
		}
		if err != nil || !slices.Equal(got, c.want) || r.apart != c.apart {
			t.Errorf("%s: %v, apart %v, %v\n got %q\nwant %q", c.name, err, r.apart, r.truncated, got, c.want)
		}
	}
	e.Seq = 500
	_, _, err = e.Encode(dataset.Conversation{Messages: talked, Row: 5})
	expect.Error(t, err, "training: row 5: ", "another way once there are later messages")
	s, err := load(t, e, []any{map[string]any{"messages": talked}, map[string]any{"messages": talked[:2]}})
	if err != nil || s.Rows != 2 || s.Apart != 1 || s.AnswersApart != 2 || len(s.Examples) != 3 || s.Examples[2].Row != 1 {
		t.Errorf("%v, %+v", err, s)
	}
	if train, val := s.Split(0.4, 0); len(train) != 2 || len(val) != 1 {
		t.Errorf("a conversation is in both parts: %d and %d examples", len(train), len(val))
	}
}

// TestPromptIsNotLearned checks every template: the answers of a prompt are context.
func TestPromptIsNotLearned(t *testing.T) {
	messages := talk("uSo?", "aIt is.", "uIs it?", "aYes.")
	for _, family := range chat.Names() {
		e := encoderOf(t, family)
		whole, _, err := e.Encode(dataset.Conversation{Messages: messages})
		expect.OK(t, err)
		ex, _, err := e.Encode(dataset.Conversation{Messages: messages, Prompt: 3})
		text := marked(e, ex)
		before, after, _ := strings.Cut(text, "⟦")
		if err != nil || !strings.Contains(before, "It is.") || !strings.Contains(after, "Yes.") ||
			ex.Targets() >= whole.Targets() || strings.Count(text, "⟦") != 1 {
			t.Errorf("%s: %v, %q", family, err, text)
		}
	}
}

// TestLaterPromptsAreAsked checks the templates that write the beginning of a conversation as they write the same
// messages in a longer one: every answer must follow the prompt that chat would give, whatever was said before.
func TestLaterPromptsAreAsked(t *testing.T) {
	for _, family := range []string{"llama3", "llama3.2", "chatml", "qwen2.5", "smollm2", "gemma"} {
		e := encoderOf(t, family)
		messages := talk("uSo?", "aIt is.\n", "uIs it? \n", "aYes.", "uWhat?", "a x")
		ex, _, err := e.Encode(dataset.Conversation{Messages: messages})
		expect.OK(t, err)
		for i := 1; i < len(messages); i += 2 {
			prompt, err := asks(e, messages[:i])
			expect.OK(t, err)
			if !slices.Equal(ex.IDs[:len(prompt)], prompt) || ex.Labels[len(prompt)-1] != Ignore ||
				ex.Labels[len(prompt)] == Ignore {
				t.Errorf("%s: answer %d does not follow its prompt", family, i/2)
			}
		}
	}
}

// TestWordsThatBeginWithASpace uses a tokenizer that puts a space before each text. An answer must be encoded as a
// continuation: encoded by itself, its first word would be another token.
func TestWordsThatBeginWithASpace(t *testing.T) {
	fallback, err := tokenizer.Load("../../tokenizer/testdata/fallback.json")
	expect.OK(t, err)
	for _, family := range []string{"zephyr", "raw"} {
		e := encoderOf(t, family)
		e.Tokenizer, e.Template.EOS = fallback, "</s>"
		for _, question := range pieces {
			messages := talk("u"+question, "aIt is.")
			ex, _, err := e.Encode(dataset.Conversation{Messages: messages})
			expect.OK(t, err)
			r, err := e.Template.Render(messages, e.Chat)
			expect.OK(t, err)
			r.Text = strings.TrimSuffix(r.Text, "\n")
			if family == "raw" && strings.TrimRight(question, "?\n") != question {
				continue // this vocabulary has a token for it with the line end that follows
			}
			if whole := e.part(r, 0, len(r.Text)); !slices.Equal(whole.IDs, ex.IDs) {
				t.Errorf("%s, %q: %d, want %d", family, question, ex.IDs, whole.IDs)
			}
		}
	}
}

// TestTruncation checks that a shorter example is the beginning of the longer one, and that every missing token is
// counted.
func TestTruncation(t *testing.T) {
	for _, all := range []bool{false, true} {
		e := encoderOf(t, "llama3")
		e.All = all
		c := dataset.Conversation{Messages: talk("uWhat is it?", "aIt is what it is.", "uSo?", "aSo it is.")}
		whole, _, err := e.Encode(c)
		expect.OK(t, err)
		n := len(whole.IDs)
		for e.Seq = 2; e.Seq < n+3; e.Seq++ {
			ex, cut, err := e.Encode(c)
			expect.OK(t, err)
			if want := max(0, n-e.Seq); cut != want {
				t.Errorf("seq %d of %d: %d tokens are cut", e.Seq, n, cut)
			}
			kept := len(ex.IDs)
			if !slices.Equal(ex.IDs, whole.IDs[:kept]) || !slices.Equal(ex.Labels, whole.Labels[:kept]) || kept > 0 &&
				ex.Labels[kept-1] == Ignore {
				t.Errorf("seq %d of %d: an example of %d tokens is no beginning", e.Seq, n, kept)
			}
			for _, label := range whole.Labels[kept:min(n, e.Seq)] {
				if label != Ignore {
					t.Errorf("seq %d of %d: something learned is lost behind token %d", e.Seq, n, kept)
				}
			}
		}
	}
}

func TestEncoderRefuses(t *testing.T) {
	gemma, raw, chatml := encoderOf(t, "gemma"), encoderOf(t, "raw"), encoderOf(t, "chatml")
	raw.Template.EOS = ""
	noEnd := *chatml
	noEnd.Template.EOS = "<|fin|>"
	other := encoderOf(t, "zephyr")
	other.Template.EOS = "<|fin|>"
	short := *chatml
	short.Seq = 1
	for _, c := range []struct {
		name     string
		e        *Encoder
		messages []chat.Message
		want     []string
	}{
		{"template", gemma, talk("sBe.", "uSo?", "aYes."), []string{"row 7", "gemma", "message 1", "system"}},
		{"no end", raw, talk("uSo?", "aYes."), []string{"raw", "never to stop", "eos_token"}},
		{"no such token", other, talk("uSo?", "aYes."), []string{`no token "<|fin|>"`, "zephyr"}},
		{"seq", &short, talk("uSo?", "aYes."), []string{"seq 1", "at least 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ex, _, err := c.e.Encode(dataset.Conversation{Messages: c.messages, Row: 7})
			expect.Error(t, err, append(c.want, "training: ")...)
			if ex.IDs != nil {
				t.Error("an example beside an error")
			}
		})
	}
}

// TestManyAnswers_TakeLinearWork checks that the work for a conversation grows with its length, not with its square. It
// measures allocation: a square would be a hundred times what the tokenizer allocates; the real factor is about two.
func TestManyAnswers_TakeLinearWork(t *testing.T) {
	e := encoderOf(t, "raw")
	e.Seq = 512
	messages := talk(slices.Repeat([]string{"uSo?", "a\nYes."}, 20000)...)
	r, err := e.Template.Render(messages, e.Chat)
	expect.OK(t, err)
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	alone := allocated(func() { e.part(r, 0, len(r.Text)) })
	var ex Example
	var cut int
	all := allocated(func() { ex, cut, err = e.Encode(dataset.Conversation{Messages: messages}) })
	if err != nil || len(ex.IDs) < 500 || cut < 100000 || all > 30*alone {
		t.Errorf("%d tokens, %d cut, %v; %d bytes allocated, by the tokenizer alone %d", len(ex.IDs), cut, err, all, alone)
	}
	t.Logf("%d bytes allocated, by the tokenizer alone %d", all, alone)
}

func FuzzEncode(f *testing.F) {
	for i, family := range chat.Names() {
		f.Add(uint8(i), "What is it?", "\nIt is.", uint16(1000))
		f.Add(uint8(i), "x \n", " "+family, uint16(20))
	}
	f.Add(uint8(0), "\xff\xc3", "<|eot_id|>\xf0\x9f", uint16(60))
	f.Add(uint8(0), "", "\x1f", uint16(1000)) // white space for Python, not for Go
	f.Fuzz(func(t *testing.T, family uint8, question, answer string, seq uint16) {
		names := chat.Names()
		e := encoderOf(t, names[int(family)%len(names)])
		e.Seq = 2 + int(seq)
		if err := checkExample(e, question, answer); err != nil {
			t.Fatalf("%s: %v", e.Template.Name, err)
		}
	})
}

// FuzzTurns checks that in any conversation that a template accepts, each answer with a text is a target, and so is its
// end.
func FuzzTurns(f *testing.F) {
	for i := range chat.Names() {
		f.Add(uint8(i), "012", "What|So?|It is.", uint16(1000), false)
		f.Add(uint8(i), "122132", "\n||<think>x</think>y||<|eot_id|>|</think>", uint16(1000), false)
		f.Add(uint8(i), "21201", "a|b", uint16(12), true)
	}
	// Each byte of who is 0 to 3, for system, user, assistant or tool.
	f.Fuzz(func(t *testing.T, family uint8, who, what string, seq uint16, all bool) {
		names := chat.Names()
		e := encoderOf(t, names[int(family)%len(names)])
		e.Seq, e.All = 2+int(seq), all
		contents := strings.Split(what, "|")
		var said []string
		answers := 0
		for i := range min(len(who), 50) {
			content := contents[i%len(contents)]
			said = append(said, string("suat"[who[i]%4])+content)
			if who[i]%4 == 2 && chat.Strip(content) != "" {
				answers++
			}
		}
		ex, cut, err := e.Encode(dataset.Conversation{Messages: talk(said...)})
		if err != nil {
			expect.Error(t, err, "row 0", e.Template.Name)
			return
		}
		n := len(ex.IDs)
		if len(ex.Labels) != n || n > e.Seq || n > 0 && (ex.Labels[0] != Ignore || ex.Labels[n-1] == Ignore) || cut > 0 &&
			n > 0 && n < e.Seq && all {
			t.Fatalf("%d ids, labels %d, seq %d, %d cut", n, ex.Labels, e.Seq, cut)
		}
		end, _ := e.Tokenizer.TokenID(e.Template.EndOfTurn())
		ends := 0
		for i, label := range ex.Labels {
			if label != Ignore && (label != ex.IDs[i] || i == 0) {
				t.Fatalf("label %d of id %d", label, ex.IDs[i])
			}
			if label == end {
				ends++
			}
		}
		if cut == 0 && !all && ends != answers || ends > answers && !all {
			t.Fatalf("%d answers end, of %d, with %d cut: %q", ends, answers, cut, marked(e, ex))
		}
	})
}
