package vocab

import (
	"fmt"
	"slices"
	"strings"
)

// A pre is what names of tokenizer.ggml.pre mean: how text is split before merging.
type pre struct {
	names        string   // separated by spaces; the first is written
	splits       []string // patterns, applied one after the other to the parts that the one before has left
	ignoreMerges bool     // a part that is a token becomes that token, whatever merging would make of it
	addBOS       bool     // unless the file says otherwise
}

// Patterns that many names share, and parts of patterns.
const (
	digit = `\p{N}`
	gpt2  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	contraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	word        = contraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|`
	lines       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	rest        = `| ?[^\s\p{L}\p{N}]+[\r\n]*` + lines
	llama3      = word + `\p{N}{1,3}` + rest
	qwen2       = word + digit + rest

	upper    = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower    = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	before   = `[^\r\n\p{L}\p{N}]?`
	restPath = `| ?[^\s\p{L}\p{N}]+[\r\n/]*` + lines
)

// pres lists llama.cpp's names that this module can express. It leaves out "default", which llama.cpp itself says
// makes answers worse, and names whose patterns have look-around or groups, such as "superbpe".
var pres = []pre{
	{"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", []string{llama3}, true, true},
	{"dbrx smaug-bpe chatglm-bpe glm4", []string{llama3}, false, false},
	{"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", []string{qwen2}, false, false},
	{"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt olmo jais " +
		"trillion granite-docling", []string{gpt2}, false, false},
	{"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", []string{digit, gpt2}, false, false},
	{"qwen35", []string{contraction + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` +
		lines}, false, false},
	{"tekken", []string{before + upper + `*` + lower + `+|` + before + upper + `+` + lower + `*|\p{N}` + restPath},
		true, true},
	{"gpt-4o llama4 kanana2 talkie minimax-m2", []string{before + upper + `*` + lower + `+` + contraction + `?|` +
		before + upper + `+` + lower + `*` + contraction + `?|\p{N}{1,3}` + restPath}, false, false},
	{"seed-coder", []string{word + `\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + lines}, false, false},
	{"deepseek-llm", []string{`[\r\n]`, deepseekLetters, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`, asian, `\p{N}+`},
		false, false},
	{"deepseek-coder", []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, asian, digit}, false, false},
	{"deepseek-v3 hunyuan-dense joyai-llm", []string{`\p{N}{1,3}`, `[一-龥` + "\u3040" + `-ゟ゠-ヿ]+`,
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
			`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*` + lines}, false, false},
	{"bailingmoe bailingmoe2 llada-moe", []string{word + digit + `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|` +
		`\s+(?!\S)|\s+`}, false, false},
	{"minicpm5", []string{`\p{N}{1,3}`, word + `\p{N}+` + rest}, true, false},
	{"laguna", []string{`[^\n]+|[\n]+`, qwen2}, false, false},
	{"falcon", []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2, `[0-9][0-9][0-9]`}, false, false},
	{"bloom poro-chat gpt3-finnish", []string{words}, false, false},
	{"viking", []string{words, digit}, false, false},
}

const (
	words           = ` ?[^(\s|.,!?…。，、।۔،)]+`
	asian           = `[一-龥ࠀ-一가-퟿]+`
	deepseekLetters = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ` +
		`-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-` +
		`ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// nearest lists splits that no name means, the name that comes closest, and what differs.
var nearest = []struct {
	pre
	differs string
}{
	{pre{"qwen2", []string{digit, llama3}, false, false}, "it splits otherwise where two or more white-space " +
		"characters stand before a digit"},
}

// spelled writes a pattern as pres do. Giving nothing back (++) makes no difference in any of them.
var spelled = strings.NewReplacer("\r", `\r`, "\n", `\n`, "?+", "?", "++", "+",
	`'(?i:[sdmt]|ll|ve|re)`, contraction, `'(?:[sdmt]|ll|ve|re)`, `'s|'t|'re|'ve|'m|'ll|'d`,
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`, contraction)

// preNamed returns what a name means.
func preNamed(name string) (pre, error) {
	for _, p := range pres {
		if slices.Contains(strings.Fields(p.names), name) {
			return p, nil
		}
	}
	const instead = "take a file that a newer convert_hf_to_gguf.py made, or the model's directory of Hugging Face"
	if name == "" || name == "default" {
		return pre{}, fmt.Errorf("tokenizer.ggml.pre is %q: the file does not say how text is split, so the model would "+
			"read its texts as other tokens than it was trained on: %s", name, instead)
	}
	return pre{}, fmt.Errorf("tokenizer.ggml.pre is %q, which is not supported: %s", name, instead)
}
