package tokenizer

import (
	"os"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// The benchmarks need the Llama-3 tokenizer and the texts of the reference directory. bench_peers.py in this directory
// times tiktoken and Hugging Face tokenizers on the same texts.

func llama3(b testing.TB) *Tokenizer {
	tok, err := Load(expect.Reference(b, "golden", "tokenizer", "llama3", "tokenizer.json"))
	expect.OK(b, err)
	return tok
}

// benchTexts returns English verse, English prose with curly quotes, code with its instructions (JSON), and the test
// vectors' languages and odd texts.
func benchTexts(b testing.TB) map[string]string {
	texts := make(map[string]string)
	for name, path := range map[string][]string{
		"shakespeare": {"data", "text", "tinyshakespeare_input.txt"},
		"oz":          {"data", "text", "wonderful_wizard_of_oz_pg55.txt"},
		"code":        {"data", "instruct", "gpteacher_codegen-instruct.json"},
	} {
		data, err := os.ReadFile(expect.Reference(b, path...))
		expect.OK(b, err)
		texts[name] = string(data)
	}
	return texts
}

var benchNames = []string{"shakespeare", "oz", "code"}

// documents cuts a text into parts of about 4 KiB that end at the end of a line, as the peers' script does.
func documents(text string) []string {
	var docs []string
	for len(text) > 4096 {
		n := strings.IndexByte(text[4096:], '\n')
		if n < 0 {
			break
		}
		docs, text = append(docs, text[:4096+n+1]), text[4096+n+1:]
	}
	return append(docs, text)
}

func BenchmarkLoad(b *testing.B) {
	data, err := os.ReadFile(expect.Reference(b, "golden", "tokenizer", "llama3", "tokenizer.json"))
	expect.OK(b, err)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	tok, texts := llama3(b), benchTexts(b)
	for _, name := range benchNames {
		docs := documents(texts[name])
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(texts[name])))
			for b.Loop() {
				for _, doc := range docs {
					tok.Encode(doc, EncodeOptions{})
				}
			}
		})
	}
}

// BenchmarkLong encodes a MiB that the pattern cannot split.
func BenchmarkLong(b *testing.B) {
	tok := llama3(b)
	for _, test := range []struct{ name, unit string }{{"letter", "a"}, {"space", " "},
		{"letters", "zyxwvutsrqponmlkjihgfedcba"}, {"han", "中文没有空格的一句话"}} {
		text := strings.Repeat(test.unit, 1<<20/len(test.unit))
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, EncodeOptions{})
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok, text := llama3(b), benchTexts(b)["oz"]
	ids := tok.Encode(text, EncodeOptions{}).IDs
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Decode(ids, true)
	}
}
