package chat

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// A Template renders conversations in the chat template of one or several models. Get one from [Detect], [ByName] or
// [Raw]. It may be copied.
type Template struct {
	// Name is the name for ByName: "llama3.2", "zephyr", …
	Name string

	// BOS and EOS are the values of the template's variables bos_token and eos_token. They have usual values, and may
	// be set to the values in a model's tokenizer_config.json. A template that does not write them ignores them.
	// Raw's BOS is the token that the tokenizer prepends to every text; only Jinja uses it.
	BOS, EOS string

	// Tokens are the values of other variables that are tokens, by their names, such as unk_token. Only a template that
	// Detect has compiled reads them.
	Tokens map[string]string

	text      string   // by which Detect recognized a template with a name
	endOfTurn string   // closes every turn; if empty, EOS does
	stops     []string // further tokens that end an answer
	program   *program // of a template that has no name here
	sha256    []string // of the published texts of the template
}

// Raw returns the template of a model without one: contents and nothing else, so a question is the prompt as it is.
// Several messages are separated by an empty line; the one before an answer belongs to the answer, so the prompt ends
// with the question. Raw writes no roles, no generation prompt and no BOS: the model's tokenizer decides on a BOS. EOS,
// empty until it is set, closes an answer.
func Raw() Template { return Template{Name: "raw"} }

//go:embed templates/*.jinja
var templateFiles embed.FS

// rawBOS starts Raw's template in Jinja if the tokenizer prepends a BOS to every text, because other programs add none
// to what a template renders.
const rawBOS = "{{- bos_token -}}\n"

// Jinja returns a chat template in Jinja, written for this package, for the files of a model that uses this template.
// It makes other programs render the same as Render, and Detect recognizes it. Raw's
// starts with bos_token if BOS is set. A template that Detect has compiled keeps its own text.
func (t Template) Jinja() string {
	if t.program != nil {
		return t.program.text
	}
	text := unmarked.Replace(t.marked())
	if t.Name == Raw().Name && t.BOS != "" {
		return rawBOS + text
	}
	return text
}

// marked returns the text of a template that has a name, in which {% generation %} marks the answers.
func (t Template) marked() string {
	text, err := templateFiles.ReadFile("templates/" + t.Name + ".jinja")
	if err != nil {
		panic("chat: " + err.Error()) // a template without its file
	}
	return string(text)
}

// unmarked removes the marks of answers, which not every program knows.
var unmarked = strings.NewReplacer("{%- generation -%}", "", "{%- endgeneration -%}", "")

// templates has the sha256 of each text that models are published with. If all line breaks are in string literals,
// the second sha256 is for the spelling with \n. ChatML also has a form that first sets a default for
// add_generation_prompt. testdata/make.py proves that all texts of a template render the same.
var templates = []Template{
	{
		Name: "llama3", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|end_of_text|>"},
		sha256: []string{
			"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
			"4f46ecd43418f216df8c26936c60e5d04bcc81db47db5d86fbe889f64212dd4c",
		},
	},
	{
		Name: "llama3.1", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|eom_id|>", "<|end_of_text|>"},
		sha256: []string{
			"e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65",
		},
	},
	{
		Name: "llama3.2", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|eom_id|>", "<|end_of_text|>"},
		sha256: []string{
			"5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4",
		},
	},
	{
		Name: "chatml", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		sha256: []string{
			"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3",
			"fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e",
			"58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7", // with a default
			"d7b5b8c7b58f7a6bf868aa46a5f73ee976d7292f40fcb9c3e7a1defd8d235cfb",
			"ed4184dbda54f94e04f4d8dbda2a35c50a66cee56d74642797c666a3e9a75748", // the embedded model's
		},
	},
	{
		Name: "qwen2.5", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		sha256: []string{
			"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
		},
	},
	{
		Name: "qwen3", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		sha256: []string{
			"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
		},
	},
	{
		Name: "smollm2", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		sha256: []string{
			"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
			"de9cde7d1b0ca0cc87459a6673e0d12fb89c070bdb24e4a30b6e4d187b226221",
		},
	},
	{ // also TinyLlama
		Name: "zephyr", BOS: "<s>", EOS: "</s>",
		sha256: []string{"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362"},
	},
	{
		Name: "mistral-v0.3", BOS: "<s>", EOS: "</s>",
		sha256: []string{
			"e16746b40344d6c5b5265988e0328a0bf7277be86f1c335156eae07e29c82826",
		},
	},
	{
		Name: "gemma", BOS: "<bos>", EOS: "<eos>",
		endOfTurn: "<end_of_turn>",
		sha256: []string{
			"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6",
			"1e51d5c0fec2f83da1953fb850b7b532b7da02d0dc35f9201e671e0b9a35a123",
		},
	},
	Raw(),
}

// Names returns the names of all templates, Raw's last.
func Names() []string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.Name
	}
	return names
}

// ByName returns the template of that name.
func ByName(name string) (Template, error) {
	for _, t := range templates {
		if t.Name == name {
			return t, nil
		}
	}
	return Template{}, fmt.Errorf("chat template %q: unknown: use one of %s", name, strings.Join(Names(), ", "))
}

// Detect returns the template with this text, the value of chat_template in tokenizer_config.json or the contents of
// chat_template.jinja. A published text, or one that Template.Jinja returns, gives the template of that name. The
// kind of line breaks and a line break at the end do not matter, because Jinja ignores them as well. The empty text,
// for a model without a template, gives Raw. Any other text is compiled, and its Name is "jinja-" and the first eight
// digits of its sha256. It is an error if it cannot be compiled, or if it refuses or leaves out a question.
func Detect(text string) (Template, error) {
	if text == "" {
		return Raw(), nil
	}
	unix := strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	bare := strings.TrimSuffix(unix, "\n")
	for _, text := range []string{bare, bare + "\n"} {
		sum := hash(text)
		for _, t := range templates {
			if slices.Contains(t.sha256, sum) || text == t.Jinja() {
				t.text = text
				return t, nil
			}
		}
		if text == rawBOS+Raw().Jinja() {
			return Raw(), nil
		}
	}
	t, err := newTemplate(text)
	if err != nil {
		return Template{}, fmt.Errorf("chat template with sha256 %s cannot be used: %w; choose one that renders the same "+
			"by its name: %s; raw is without a template", hash(text), err, strings.Join(Names(), ", "))
	}
	return t, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// EndOfTurn returns the token that closes a turn, the last one of an answer. It is empty for Raw without an EOS.
func (t Template) EndOfTurn() string {
	if t.program != nil && t.sha256 == nil && t.endOfTurn == "" {
		return cmp.Or(t.endAfterAnswer(), t.EOS)
	}
	return cmp.Or(t.endOfTurn, t.EOS)
}

// Stops returns the tokens that end an answer, EndOfTurn first. A model's vocabulary may lack some of them, and its
// generation_config.json may add others.
func (t Template) Stops() []string {
	var stops []string
	for _, s := range append([]string{t.EndOfTurn(), t.EOS}, t.stops...) {
		if s != "" && !slices.Contains(stops, s) {
			stops = append(stops, s)
		}
	}
	return stops
}
