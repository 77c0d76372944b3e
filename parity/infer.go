package parity

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"restyle/infer"
)

func isInfer(f *folder) bool { return f.hasFile("sampling.jsonl") }

// compareInfer compares the greedy choice, and the logits that remain under the settings of the sampler.
func compareInfer(f *folder) error {
	const file = "sampling.jsonl"
	return f.eachLine(file, func(n int, line []byte) error {
		fields, key, err := f.fields(file, n, line, "name", "vocab", "logits_f32_le", "history")
		if err != nil {
			return err
		}
		var v struct {
			Vocab   int
			Logits  []byte `json:"logits_f32_le"`
			History []int32
			Argmax  int32
			Cases   []map[string]json.RawMessage
		}
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		logits := make([]float32, len(v.Logits)/4)
		for i := range logits {
			logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(v.Logits[4*i:]))
		}
		if len(logits) != v.Vocab {
			return fmt.Errorf("%d logits for a vocabulary of %d", len(logits), v.Vocab)
		}
		if fields["argmax"] == nil {
			f.missing(key("argmax"))
		}
		greedy, err := infer.NewSampler(infer.Sampling{}, nil)
		if err != nil {
			return err
		}
		best, err := greedy.Next(logits)
		f.compare("argmax", key("argmax"), differ(err == nil && best == v.Argmax), exact)
		f.strike(key("cases"), compared)
		for i, c := range v.Cases {
			if err := f.compareCase(key(fmt.Sprintf("cases.%d", i)), c, v.History, logits); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *folder) compareCase(at string, fields map[string]json.RawMessage, history []int32, logits []float32) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f.enter(at + "." + name)
		switch name {
		case "params", "top_p_tie":
			f.strike(at+"."+name, input)
		case "top_p_margin": // how far the nearest sum is from the cutoff: nothing that we compute
			f.strike(at+"."+name, yardstick)
		}
	}
	for _, name := range []string{"params", "kept", "probs"} {
		if fields[name] == nil {
			f.missing(at + "." + name)
			return nil
		}
	}
	var params map[string]float64
	var kept []int32
	var probs []float64
	var tie bool
	for name, v := range map[string]any{"params": &params, "kept": &kept, "probs": &probs, "top_p_tie": &tie} {
		if fields[name] == nil {
			continue
		}
		if err := json.Unmarshal(fields[name], v); err != nil {
			return err
		}
	}
	s := infer.Sampling{Temperature: 1}
	for name, value := range params {
		switch name {
		case "temperature":
			s.Temperature = value
		case "top_k":
			s.TopK = int(value)
		case "top_p":
			s.TopP = value
		case "min_p":
			s.MinP = value
		case "repetition_penalty":
			s.RepetitionPenalty = value
		default:
			return fmt.Errorf("sampling setting %q is not known", name)
		}
	}
	sampler, err := infer.NewSampler(s, history)
	if err != nil {
		return err
	}
	ids, got, err := sampler.Distribution(logits)
	if err != nil {
		return err
	}
	if tie { // which of several equal logits remain is undefined
		f.compare("tokens kept, their number", at+".kept", differ(len(ids) == len(kept)), exact)
		slices.Sort(got)
		slices.Sort(probs)
	} else {
		f.compare("tokens kept", at+".kept", differ(slices.Equal(ids, kept)), exact)
	}
	f.compare("probabilities, absolute", at+".probs", farthest(got, probs), limitProbability)
	return nil
}
