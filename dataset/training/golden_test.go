package training

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"restyle/chat"
	"restyle/dataset"
	"restyle/internal/expect"
	"restyle/tokenizer"
)

// real returns a tokenizer that is not part of the module.
func real(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(expect.Reference(t, "golden", "tokenizer", name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
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

// TestGoldenMasks compares with what transformers encodes and would mask. transformers encodes a text as a whole, so an
// answer that begins with a line end shares a token with the end of the prompt; such answers are not compared.
func TestGoldenMasks(t *testing.T) {
	tokenizers := map[string]*tokenizer.Tokenizer{}
	for _, c := range []struct {
		family, tokenizer string
		atLeast           int // conversations that are compared
	}{
		{"llama3", "llama3", 30}, {"llama3.1", "llama3", 30}, {"llama3.2", "llama3", 30},
		{"chatml", "qwen2-tiny", 25}, {"qwen2.5", "qwen2-tiny", 25}, {"smollm2", "qwen2-tiny", 25},
	} {
		t.Run(c.family, func(t *testing.T) {
			family, err := chat.ByName(c.family)
			if err != nil {
				t.Fatal(err)
			}
			if tokenizers[c.tokenizer] == nil {
				tokenizers[c.tokenizer] = real(t, c.tokenizer)
			}
			e := &Encoder{Tokenizer: tokenizers[c.tokenizer], Template: family, Seq: 1 << 20}
			compared := 0
			for line := range strings.Lines(expect.Read(t, expect.Reference(t, "golden", "chat", c.family+".jsonl"))) {
				var g golden
				if err := json.Unmarshal([]byte(line), &g); err != nil {
					t.Fatal(err)
				}
				if g.Error != "" || g.Options.AddGenerationPrompt || g.Options.Now != "" {
					continue
				}
				ids, loss := g.IDs, g.LossTokens
				if g.IDsSafe != nil {
					ids, loss = g.IDsSafe, g.LossSafe
				}
				e.Chat.DateString = g.Options.DateString
				ex, _, err := e.Encode(dataset.Conversation{Messages: g.Messages})
				if err != nil {
					t.Errorf("%s: %v", g.Name, err)
					continue
				}
				labels := slices.Repeat([]int32{Ignore}, len(ids))
				answers := slices.DeleteFunc(slices.Clone(g.Messages), func(m chat.Message) bool { return m.Role != "assistant" })
				straddles := false
				for i, l := range loss {
					if strings.TrimSpace(answers[i].Content) != "" {
						copy(labels[l[0]:l[1]], ids[l[0]:l[1]])
					}
					straddles = straddles || strings.HasPrefix(answers[i].Content, "\n") && c.tokenizer != "llama3"
				}
				if straddles {
					continue
				}
				n := lastTarget(labels)
				if !slices.Equal(ex.IDs, ids[:n]) || !slices.Equal(ex.Labels, labels[:n]) {
					t.Errorf("%s:\ngot  %d %d\nwant %d %d", g.Name, ex.IDs, ex.Labels, ids[:n], labels[:n])
				}
				if n > 0 {
					compared++
				}
			}
			if compared < c.atLeast {
				t.Errorf("only %d conversations are compared", compared)
			}
		})
	}
}

// TestPromptIsWhatChatAsksForReal is like TestPromptIsWhatChatAsks, but with large vocabularies and real questions and
// answers.
func TestPromptIsWhatChatAsksForReal(t *testing.T) {
	source, err := dataset.Open(t.Context(), expect.Reference(t, "data", "instruct/gpteacher_codegen-instruct.json"),
		dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
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
