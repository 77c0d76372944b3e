package training

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/tokenizer"
)

// real returns a tokenizer that is not part of the module.
func real(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(expect.Reference(t, "golden", "tokenizer", name, "tokenizer.json"))
	expect.OK(t, err)
	return tok
}

// golden is a conversation as transformers encodes it, with the tokens that may count in the loss.
type golden struct {
	Name     string
	Messages []chat.Message
	Options  struct {
		AddGenerationPrompt bool   `json:"add_generation_prompt"`
		DateString          string `json:"date_string"`
		Now                 string
	}
	Error      string
	IDs        []int32
	IDsSafe    []int32  `json:"ids_safe"`
	LossTokens [][2]int `json:"loss_tokens"`
	LossSafe   [][2]int `json:"loss_tokens_safe"`
}

// TestReferenceMasks compares with what transformers encodes and would mask.
func TestReferenceMasks(t *testing.T) {
	for _, c := range expect.Chats(t) {
		if c.Tokenizer == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			family, err := chat.ByName(c.Name)
			expect.OK(t, err)
			tok, err := tokenizer.Load(c.Tokenizer)
			expect.OK(t, err)
			e := &Encoder{Tokenizer: tok, Template: family, Seq: 1 << 20}
			compared := 0
			for line := range strings.Lines(expect.Read(t, c.File)) {
				var g golden
				expect.OK(t, json.Unmarshal([]byte(line), &g))
				if g.Error == "" && g.compare(t, e) {
					compared++
				}
			}
			if compared == 0 {
				t.Error("no conversation is compared")
			}
		})
	}
}

// compare reports whether there were target tokens to compare. transformers encodes a text as a whole, so an answer
// that begins with a line end may share a token with the end of the prompt; such answers are not compared.
func (g golden) compare(t *testing.T, e *Encoder) bool {
	t.Helper()
	ids, loss := g.IDs, g.LossTokens
	if g.IDsSafe != nil {
		ids, loss = g.IDsSafe, g.LossSafe
	}
	e.Chat = chat.Options{AddGenerationPrompt: g.Options.AddGenerationPrompt, DateString: g.Options.DateString}
	if g.Options.Now != "" {
		now, err := time.Parse("2006-01-02T15:04:05", g.Options.Now)
		expect.OK(t, err)
		e.Chat.Now = now
	}
	r, err := e.Template.Render(g.Messages, e.Chat)
	expect.OK(t, err)
	var markup []tokenizer.Span
	for _, s := range r.Markup {
		markup = append(markup, tokenizer.Span(s))
	}
	if got := e.Tokenizer.Encode(r.Text, tokenizer.EncodeOptions{Special: markup}).IDs; !slices.Equal(got, ids) {
		t.Errorf("%s: the whole text is %d, want %d", g.Name, got, ids)
	}
	if g.Options.AddGenerationPrompt || g.Options.Now != "" {
		return false
	}
	ex, _, err := e.Encode(dataset.Conversation{Messages: g.Messages})
	if err != nil {
		t.Errorf("%s: %v", g.Name, err)
		return false
	}
	labels := slices.Repeat([]int32{Ignore}, len(ids))
	answers := slices.DeleteFunc(slices.Clone(g.Messages), func(m chat.Message) bool { return m.Role != "assistant" })
	for i, l := range loss {
		if chat.Strip(answers[i].Content) != "" {
			copy(labels[l[0]:l[1]], ids[l[0]:l[1]])
		}
		if strings.HasPrefix(answers[i].Content, "\n") && !strings.HasPrefix(e.Template.Name, "llama3") {
			return false
		}
	}
	n := lastTarget(labels)
	if !slices.Equal(ex.IDs, ids[:n]) || !slices.Equal(ex.Labels, labels[:n]) {
		t.Errorf("%s:\ngot  %d %d\nwant %d %d", g.Name, ex.IDs, ex.Labels, ids[:n], labels[:n])
	}
	return n > 0
}

// TestPromptIsWhatChatAsksForReal is like TestPromptIsWhatChatAsks, but with large vocabularies and real questions and
// answers.
func TestPromptIsWhatChatAsksForReal(t *testing.T) {
	source, err := dataset.Open(t.Context(), expect.Reference(t, "data", "instruct/gpteacher_codegen-instruct.json"),
		dataset.Options{})
	expect.OK(t, err)
	defer source.Close()
	rows := make([]dataset.Row, 1000)
	for i := range rows {
		if rows[i], err = source.Next(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"llama3", "qwen2-tiny"} {
		tok := real(t, name)
		for _, family := range []string{"llama3.2", "chatml", "raw"} {
			e := encoderOf(t, family)
			e.Tokenizer = tok
			if e.check(false) != nil {
				continue // it is another model's template
			}
			for _, row := range rows {
				if err := checkExample(e, dataset.Question(row.Instruction, row.Input), row.Output); err != nil {
					t.Fatalf("%s, %s, row %d: %v", name, family, row.Index, err)
				}
			}
		}
	}
}
