package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

type object = map[string]any

func byteLevel(useRegex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
}

// preTokenizer is the pre-tokenizer of a trained vocabulary.
func preTokenizer(o TrainOptions) object {
	var steps []object
	if o.SingleDigits {
		steps = append(steps, object{"type": "Digits", "individual_digits": true})
	}
	if o.Pattern == GPT2Pattern {
		steps = append(steps, byteLevel(true))
	} else {
		steps = append(steps,
			object{"type": "Split", "pattern": object{"Regex": o.Pattern}, "behavior": "Isolated", "invert": false},
			byteLevel(false))
	}
	if len(steps) == 1 {
		return steps[0]
	}
	return object{"type": "Sequence", "pretokenizers": steps}
}

// postProcessor returns the post-processor that puts a token before each text, or nil if there is no such token.
func postProcessor(bos string, id int) any {
	if bos == "" {
		return nil
	}
	token := object{"SpecialToken": object{"id": bos, "type_id": 0}}
	text := func(id string, typeID int) object { return object{"Sequence": object{"id": id, "type_id": typeID}} }
	return object{"type": "TemplateProcessing", "single": []object{token, text("A", 0)},
		"pair":           []object{token, text("A", 0), token, text("B", 1)},
		"special_tokens": object{bos: object{"id": bos, "ids": []int{id}, "tokens": []string{bos}}}}
}

// A layout says how a tokenizer.json splits and joins texts, and how it spells tokens.
type layout struct {
	preTokenizer, decoder any // nil for none
	spell                 func(token string) string
}

// writeTokenizer writes a vocabulary as a tokenizer.json.
func writeTokenizer(tokens []string, merges []pair, o TrainOptions, l layout) ([]byte, error) {
	added := []object{}
	for i, content := range o.Special {
		added = append(added, object{"id": len(tokens) + i, "content": content, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": true})
	}

	// The parts are in Hugging Face's order; the vocabulary is by id, because encoding/json would sort it by text.
	var out bytes.Buffer
	value := func(v any) {
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)             // texts, numbers, lists and maps
		out.Truncate(out.Len() - 1) // remove the line end
	}
	field := func(name string, v any) {
		fmt.Fprintf(&out, "  %q: ", name)
		value(v)
		out.WriteString(",\n")
	}
	out.WriteString("{\n")
	field("version", "1.0")
	field("truncation", nil)
	field("padding", nil)
	field("added_tokens", added)
	field("normalizer", nil)
	field("pre_tokenizer", l.preTokenizer)
	field("post_processor", postProcessor(o.BOS, len(tokens)+slices.Index(o.Special, o.BOS)))
	field("decoder", l.decoder)
	out.WriteString(`  "model": {"type": "BPE", "dropout": null, "unk_token": null,` +
		` "continuing_subword_prefix": null, "end_of_word_suffix": null,` +
		` "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,` + "\n    \"vocab\": {\n")
	separate := func(i, n int) {
		if i+1 < n {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	for id, token := range tokens {
		out.WriteString("      ")
		value(l.spell(token))
		fmt.Fprintf(&out, ": %d", id)
		separate(id, len(tokens))
	}
	out.WriteString("    },\n    \"merges\": [\n")
	for i, m := range merges {
		out.WriteString("      ")
		value(l.spell(tokens[m.left]) + " " + l.spell(tokens[m.right]))
		separate(i, len(merges))
	}
	out.WriteString("    ]\n  }\n}\n")
	t, err := Parse(out.Bytes()) // do not write what cannot be read
	if err != nil {
		return nil, fmt.Errorf("write a tokenizer: %w", err)
	}
	for i, content := range o.Special {
		if id, _ := t.TokenID(content); int(id) != len(tokens)+i {
			return nil, fmt.Errorf("write a tokenizer: the special token %q occurs twice, or is a token already", content)
		}
	}
	return out.Bytes(), nil
}
