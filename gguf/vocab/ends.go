package vocab

import (
	"slices"
)

// The texts by which llama.cpp knows tokens, whatever type the file gives them.
var (
	endTexts = set("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
		"<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
		"<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
		// padding, repository and file, which come after the text that is filled in
		"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
		"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>")
	fillTexts = set("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
		"<|code_prefix|>", "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>",
		"▁<SUF>", "<|code_suffix|>", "<|suffix|>", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
		"<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>")
	shownTexts = set("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>") // of gpt-oss
)

func set(texts ...string) map[string]bool {
	s := map[string]bool{}
	for _, text := range texts {
		s[text] = true
	}
	return s
}

// kinds returns the types of the tokens, as llama.cpp corrects them by the tokens' texts, and whether each token ends
// an answer.
func (v *Vocab) kinds() (types []int, ends []bool) {
	types, ends = slices.Clone(v.Types), make([]bool, len(v.Tokens))
	has := map[string]int{}
	for id, text := range v.Tokens {
		switch {
		case endTexts[text]:
			types[id], ends[id], has[text] = Control, true, id
		case fillTexts[text]:
			types[id] = Control
		case shownTexts[text]:
			types[id] = UserDefined
		}
	}
	for _, id := range []int{v.EOS, v.EOT, v.EOM} {
		if id >= 0 {
			ends[id] = true
		}
	}
	all := func(texts ...string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { _, ok := has[text]; return !ok })
	}
	// In these model families, a token that ends answers elsewhere occurs within them.
	call := all("<|call|>") || all("<|calls|>")
	if call && (all("<|return|>", "<|end|>") || all("<|flush|>", "<|end|>")) {
		types[has["<|end|>"]], ends[has["<|end|>"]] = UserDefined, false
	}
	if all("<|tool_response>", "</s>") {
		types[has["</s>"]], ends[has["</s>"]] = Normal, false
	}
	return types, ends
}

// Ends returns the ids of the tokens that end an answer in llama.cpp, ascending: the tokens that the file names (eos,
// eot, eom), and the tokens with one of the texts by which it knows them, such as <|im_end|>. The ids must be in
// range.
func (v *Vocab) Ends() (ids []int) {
	_, ends := v.kinds()
	for id, is := range ends {
		if is {
			ids = append(ids, id)
		}
	}
	return ids
}
