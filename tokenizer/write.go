package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// writeTokenizer writes a trained vocabulary, whose tokens are given as bytes, as a tokenizer.json.
func writeTokenizer(tokens []string, merges []pair, o TrainOptions) ([]byte, error) {
	type object = map[string]any
	byteLevel := func(useRegex bool) object {
		return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
	}
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
	var added []object
	for i, content := range o.Special {
		added = append(added, object{"id": len(tokens) + i, "content": content, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": true})
	}
	var template any
	if o.BOS != "" {
		bos := object{"SpecialToken": object{"id": o.BOS, "type_id": 0}}
		text := func(id string, typeID int) object { return object{"Sequence": object{"id": id, "type_id": typeID}} }
		var id any
		for _, a := range added {
			if a["content"] == o.BOS {
				id = a["id"]
			}
		}
		template = object{"type": "TemplateProcessing", "single": []object{bos, text("A", 0)},
			"pair":           []object{bos, text("A", 0), bos, text("B", 1)},
			"special_tokens": object{o.BOS: object{"id": o.BOS, "ids": []any{id}, "tokens": []string{o.BOS}}}}
	}

	// The parts in Hugging Face's order; the vocabulary by id, which encoding/json would sort by text.
	var out bytes.Buffer
	var failed error
	value := func(v any) {
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil && failed == nil {
			failed = err
		}
		out.Truncate(out.Len() - 1) // the line end
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
	if added == nil {
		added = []object{}
	}
	field("added_tokens", added)
	field("normalizer", nil)
	if len(steps) == 1 {
		field("pre_tokenizer", steps[0])
	} else {
		field("pre_tokenizer", object{"type": "Sequence", "pretokenizers": steps})
	}
	field("post_processor", template)
	field("decoder", byteLevel(true))
	out.WriteString(`  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,` +
		` "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,` + "\n    \"vocab\": {\n")
	separate := func(i, n int) {
		if i+1 < n {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	for id, token := range tokens {
		out.WriteString("      ")
		value(alphabet().write(token))
		fmt.Fprintf(&out, ": %d", id)
		separate(id, len(tokens))
	}
	out.WriteString("    },\n    \"merges\": [\n")
	for i, m := range merges {
		out.WriteString("      ")
		value(alphabet().write(tokens[m.left]) + " " + alphabet().write(tokens[m.right]))
		separate(i, len(merges))
	}
	out.WriteString("    ]\n  }\n}\n")
	if failed != nil {
		return nil, fmt.Errorf("write a tokenizer: %w", failed)
	}
	// What cannot be read back must not be written: a special token that is empty, or twice, or a token already.
	if _, err := Parse(out.Bytes()); err != nil {
		return nil, fmt.Errorf("write a tokenizer: %w", err)
	}
	return out.Bytes(), nil
}
