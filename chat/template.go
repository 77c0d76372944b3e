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

// A Template is a chat template: how conversations are written for the models that share it. It is got from [Detect],
// [ByName] or [Raw] and may be copied.
type Template struct {
	// Name is how ByName knows it: "llama3.2", "zephyr", …
	Name string

	// BOS and EOS are what the template's variables bos_token and eos_token stand for. They are the family's usual ones
	// and may be set to those of a model's tokenizer_config.json. A template that does not write them ignores them. Raw's
	// BOS is what the tokenizer puts in front of every text, and matters to Jinja alone.
	BOS, EOS string

	endOfTurn string   // closes every turn; empty: EOS does
	stops     []string // further tokens after which the model has finished
	sha256    []string // of the templates that are rendered so
	render    func(*page) error
}

// Raw is the format for a model without a chat template: contents and nothing else, a question as it is. Where there
// are several messages an empty line stands between them, and in front of an answer it belongs to the answer:
// the prompt ends with the question. Roles are not written, nor is there a generation prompt, nor a BOS: whether
// one belongs in front is for the model's tokenizer to say. EOS closes an answer and is empty until it is set.
func Raw() Template { return Template{Name: "raw", render: (*page).raw} }

//go:embed templates/*.jinja
var templates embed.FS

// rawBOS begins Raw's template in Jinja if the tokenizer puts a BOS in front of a text: other programs add none to
// what a template writes.
const rawBOS = "{{- bos_token -}}\n"

// Jinja returns a chat template in Jinja of our own making, for the files of a model that is asked in this form. Other
// programs then write the same as Render, and Detect knows it. It has no part for tools but their results. Raw's
// begins with bos_token if BOS is set.
func (f Template) Jinja() string {
	text, err := templates.ReadFile("templates/" + f.Name + ".jinja")
	if err != nil {
		panic("chat: " + err.Error()) // a family without its file
	}
	if f.Name == Raw().Name && f.BOS != "" {
		return rawBOS + string(text)
	}
	return string(text)
}

// families has the sha256 of each template text that models are published with. Where all line breaks stand in string
// literals, the second one is of the spelling with \n; ChatML also has a form that first gives add_generation_prompt
// a default. testdata/make.py proves that they all write the same.
var families = []Template{
	{
		Name: "llama3", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|end_of_text|>"},
		render: (*page).llama3,
		sha256: []string{
			"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
			"4f46ecd43418f216df8c26936c60e5d04bcc81db47db5d86fbe889f64212dd4c",
		},
	},
	{
		Name: "llama3.1", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|eom_id|>", "<|end_of_text|>"},
		render: (*page).llama31,
		sha256: []string{"e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65"},
	},
	{
		Name: "llama3.2", BOS: "<|begin_of_text|>", EOS: "<|eot_id|>",
		endOfTurn: "<|eot_id|>", stops: []string{"<|eom_id|>", "<|end_of_text|>"},
		render: (*page).llama32,
		sha256: []string{"5816fce10444e03c2e9ee1ef8a4a1ea61ae7e69e438613f3b17b69d0426223a4"},
	},
	{
		Name: "chatml", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		render: (*page).chatml,
		sha256: []string{
			"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3",
			"fcf7a096fe99a48fd9ad2b250bf9237e96e8f48bffec1c7ea4d3f225176cd40e",
			"58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7", // with a default
			"d7b5b8c7b58f7a6bf868aa46a5f73ee976d7292f40fcb9c3e7a1defd8d235cfb",
		},
	},
	{
		Name: "qwen2.5", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		render: (*page).qwen25,
		sha256: []string{"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f"},
	},
	{
		Name: "qwen3", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		render: (*page).qwen3,
		sha256: []string{"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8"},
	},
	{
		Name: "smollm2", EOS: "<|im_end|>",
		endOfTurn: "<|im_end|>", stops: []string{"<|endoftext|>"},
		render: (*page).smollm2,
		sha256: []string{
			"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
			"de9cde7d1b0ca0cc87459a6673e0d12fb89c070bdb24e4a30b6e4d187b226221",
		},
	},
	{ // also TinyLlama
		Name: "zephyr", BOS: "<s>", EOS: "</s>",
		render: (*page).zephyr,
		sha256: []string{"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362"},
	},
	{
		Name: "mistral-v0.3", BOS: "<s>", EOS: "</s>",
		render: (*page).mistral,
		sha256: []string{"e16746b40344d6c5b5265988e0328a0bf7277be86f1c335156eae07e29c82826"},
	},
	{
		Name: "gemma", BOS: "<bos>", EOS: "<eos>",
		endOfTurn: "<end_of_turn>",
		render:    (*page).gemma,
		sha256: []string{
			"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6",
			"1e51d5c0fec2f83da1953fb850b7b532b7da02d0dc35f9201e671e0b9a35a123",
		},
	},
	Raw(),
}

// Names returns the names of the families, Raw the last.
func Names() []string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.Name
	}
	return names
}

// ByName returns the family of that name.
func ByName(name string) (Template, error) {
	for _, f := range families {
		if f.Name == name {
			return f, nil
		}
	}
	return Template{}, fmt.Errorf("no chat template is called %q: use one of %s", name, strings.Join(Names(), ", "))
}

// Detect returns the family of a template by its text, the value of chat_template in tokenizer_config.json or the
// contents of chat_template.jinja. The text must be the published one or Jinja's to the letter, save for the kind of its line
// breaks and one at the end, which Jinja does not see either. The empty text, a model without a template, is Raw.
func Detect(template string) (Template, error) {
	if template == "" {
		return Raw(), nil
	}
	unix := strings.ReplaceAll(strings.ReplaceAll(template, "\r\n", "\n"), "\r", "\n")
	bare := strings.TrimSuffix(unix, "\n")
	for _, text := range []string{bare, bare + "\n"} {
		sum := hash(text)
		for _, f := range families {
			if slices.Contains(f.sha256, sum) || text == f.Jinja() {
				return f, nil
			}
		}
		if text == rawBOS+Raw().Jinja() {
			return Raw(), nil
		}
	}
	return Template{}, fmt.Errorf("chat template with sha256 %s is not supported: give --template NAME "+
		"if it writes the same as one of %s; raw is without a template", hash(template), strings.Join(Names(), ", "))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// EndOfTurn returns the token that closes a turn, the last thing an assistant has to write. It is empty for Raw
// without an EOS.
func (f Template) EndOfTurn() string { return cmp.Or(f.endOfTurn, f.EOS) }

// Stops returns the tokens after which an answer is over, EndOfTurn first. Those that a model's vocabulary lacks mean
// nothing; those of its generation_config.json count as well.
func (f Template) Stops() []string {
	var stops []string
	for _, s := range append([]string{f.EndOfTurn(), f.EOS}, f.stops...) {
		if s != "" && !slices.Contains(stops, s) {
			stops = append(stops, s)
		}
	}
	return stops
}
