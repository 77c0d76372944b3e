package hf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"restyle/lora"
)

// adapterKeys are the keys of an adapter_config.json that are read, or that have no effect on a trained adapter: a
// method of initialization counts in init_lora_weights, not in the configuration of the method; fan_in_fan_out is for
// matrices that are stored transposed, as in GPT-2, and PEFT corrects it to match the model.
var adapterKeys = strings.Fields(`
	alpha_pattern base_model_name_or_path exclude_modules init_lora_weights layers_to_transform lora_alpha lora_dropout
	modules_to_save peft_type r rank_pattern target_modules task_type use_rslora
	auto_mapping corda_config eva_config fan_in_fan_out inference_mode loftq_config lora_ga_config megatron_core
	peft_version qalora_group_size revision runtime_config velora_config`)

const merged = "merge it into its base with PEFT, and use that model"

// adapterRefused lists the keys that change what an adapter computes: the values that have no effect, besides null
// and empty ones, and what to do about others.
var adapterRefused = []struct {
	key  string
	fine []string
	do   string
}{
	{"use_dora", nil, "DoRA is not supported: " + merged},
	{"use_bdlora", nil, "block-diagonal adapters are not supported: " + merged},
	{"use_qalora", nil, "QA-LoRA is not supported: " + merged},
	{"arrow_config", nil, "routing between adapters is not supported"},
	{"kasa_config", nil, "KaSA is not supported: " + merged},
	{"monteclora_config", nil, "MonteCLoRA is not supported: " + merged},
	{"alora_invocation_tokens", nil, "an adapter that only some tokens switch on is not supported"},
	{"target_parameters", nil, "adapters on parameters outside of linear layers are not supported: " + merged},
	{"trainable_token_indices", nil, "single trained tokens are not supported: " + merged},
	{"ensure_weight_tying", nil, "a head and an embedding that are trained as one are not supported: " + merged},
	{"layer_replication", nil, "repeated layers are not supported"},
	{"layers_pattern", []string{`"layers"`, `["layers"]`}, "only the name layers is supported: name the layers in " +
		"target_modules"},
	{"bias", []string{`"none"`}, "trained biases are not supported: " + merged},
	{"lora_bias", nil, "an adapter with a bias is not supported: " + merged},
	{"megatron_config", nil, "Megatron's parallel layers are not supported"},
}

// adapterInits are the values of init_lora_weights that leave the base as it is. With others, such as PiSSA, an adapter
// belongs to a changed base.
var adapterInits = []string{"null", "true", "false", `"gaussian"`, `"eva"`, `"mica"`, `"orthogonal"`}

// parseAdapterConfig reads an adapter_config.json, as PEFT 0.21 understands it.
func parseAdapterConfig(data []byte) (spec lora.Spec, base string, err error) {
	o := parseObject(data)
	if o.err == nil {
		spec, base = o.adapter()
	}
	if o.err == nil {
		o.err = spec.Validate()
	}
	if o.err != nil {
		return lora.Spec{}, "", fmt.Errorf("%s: %w", adapterConfigName, o.err)
	}
	return spec, base, nil
}

func (o *object) adapter() (s lora.Spec, base string) {
	if kind := optional(o, "peft_type", ""); kind != "LORA" {
		o.fail("peft_type is %.60q: only LORA is supported", kind)
	}
	if task := optional(o, "task_type", "CAUSAL_LM"); task != "CAUSAL_LM" {
		o.fail("task_type is %.60q: only CAUSAL_LM is supported", task)
	}
	o.refuseAdapter()
	s = lora.Spec{
		Rank:    get(o, "r", 8), // the values of absent keys are PEFT's
		Alpha:   get(o, "lora_alpha", 8.0),
		RSLoRA:  optional(o, "use_rslora", false),
		Dropout: optional(o, "lora_dropout", 0.0),
		Targets: o.targets("target_modules"),
		Exclude: o.targets("exclude_modules"),
		Layers:  o.layers("layers_to_transform"),
		Ranks:   o.patterns("rank_pattern"),
		Alphas:  o.patterns("alpha_pattern"),
		Also:    optional(o, "modules_to_save", []string(nil)),
	}
	if s.Rank == 0 {
		o.fail("r is 0: the adapter has no effect")
	}
	return s, optional(o, "base_model_name_or_path", "")
}

// refuseAdapter refuses settings that would change the result and are unsupported or unknown.
func (o *object) refuseAdapter() {
	known := map[string]bool{}
	for _, key := range adapterKeys {
		known[key] = true
	}
	for _, r := range adapterRefused {
		known[r.key] = true
		if raw := o.keys[r.key]; o.effective(r.key) && !slices.Contains(r.fine, compact(raw)) {
			o.fail("%s is %.60s: %s", r.key, raw, r.do)
		}
	}
	if init, ok := o.keys["init_lora_weights"]; ok && !slices.Contains(adapterInits, strings.ToLower(string(init))) {
		o.fail("init_lora_weights is %.60s: the adapter may belong to a base that this method has changed: save it with "+
			"PEFT's path_initial_model_for_weight_conversion, or %s", init, merged)
	}
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		if !known[key] && o.effective(key) {
			o.fail("%.60q is %.60s: this key is unknown and may change the result: remove it if it does not", key, o.keys[key])
		}
	}
}

// effective reports whether a key's value is other than null, false, 0, "", [] and {}.
func (o *object) effective(key string) bool {
	var number float64
	switch raw := compact(o.keys[key]); raw {
	case "", "null", "false", `""`, "[]", "{}":
		return false
	default:
		return json.Unmarshal([]byte(raw), &number) != nil || number != 0
	}
}

// compact returns JSON without spaces, or "" if there is none.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// targets reads modules: a list of their names, or a regular expression, or the word for all linear layers.
func (o *object) targets(key string) (t lora.Targets) {
	if !o.has(key) {
		return t
	}
	var text string
	switch {
	case json.Unmarshal(o.keys[key], &text) != nil:
		t.Names = optional(o, key, []string(nil))
	case key == "target_modules" && strings.ToLower(text) == allLinear:
		t.AllLinear = true
	default:
		t.Match = text
	}
	return t
}

const allLinear = "all-linear"

// layers reads the indices of layers: a number, or a list of numbers.
func (o *object) layers(key string) []int {
	var one int
	if o.has(key) && json.Unmarshal(o.keys[key], &one) == nil {
		return []int{one}
	}
	return optional(o, key, []int(nil))
}

// patterns reads an object of numbers, in its order: the first key that matches counts.
func (o *object) patterns(key string) (list []lora.Pattern) {
	if !o.has(key) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(o.keys[key]))
	if t, _ := dec.Token(); t != json.Delim('{') {
		o.fail("%s is %.60s, which is not an object of numbers", key, o.keys[key])
		return nil
	}
	for dec.More() {
		var p lora.Pattern
		name, _ := dec.Token() // parseObject has checked that it is JSON
		p.Key, _ = name.(string)
		var value *float64
		if dec.Decode(&value) != nil || value == nil {
			o.fail("%s of %.60q is not a number", key, p.Key)
			return nil
		}
		p.Value = *value
		list = append(list, p)
	}
	return list
}

// adapterConfig returns the adapter_config.json of adapters on modules: only the keys that readers need, because old
// ones refuse others. PEFT 0.7.0 knows all but use_rslora and exclude_modules, which are there only if they count.
func adapterConfig(s lora.Spec, base string, modules []string) []byte {
	fields := map[string]any{
		"base_model_name_or_path": base,
		"bias":                    "none",
		"inference_mode":          true,
		"lora_alpha":              s.Alpha,
		"lora_dropout":            s.Dropout,
		"peft_type":               "LORA",
		"r":                       s.Rank,
		"target_modules":          targetsJSON(s.Targets),
		"task_type":               "CAUSAL_LM",
	}
	if s.Targets.AllLinear { // old readers know only lists: the last parts of the modules' names
		var names []string
		for _, module := range modules {
			names = append(names, module[strings.LastIndexByte(module, '.')+1:])
		}
		slices.Sort(names)
		fields["target_modules"] = slices.Compact(names)
	}
	if base == "" {
		fields["base_model_name_or_path"] = nil
	}
	if exclude := targetsJSON(s.Exclude); exclude != nil {
		fields["exclude_modules"] = exclude
	}
	if s.RSLoRA {
		fields["use_rslora"] = true
	}
	if len(s.Layers) > 0 {
		fields["layers_to_transform"] = s.Layers
	}
	if len(s.Ranks) > 0 {
		fields["rank_pattern"] = patternsJSON(s.Ranks)
	}
	if len(s.Alphas) > 0 {
		fields["alpha_pattern"] = patternsJSON(s.Alphas)
	}
	if len(s.Also) > 0 {
		fields["modules_to_save"] = s.Also
	}
	data, _ := json.MarshalIndent(fields, "", "  ") // strings and finite numbers cannot fail
	return append(data, '\n')
}

func targetsJSON(t lora.Targets) any {
	switch {
	case t.Match != "":
		return t.Match
	case len(t.Names) > 0:
		return t.Names
	}
	return nil
}

// patternsJSON keeps the order of the patterns.
func patternsJSON(patterns []lora.Pattern) json.RawMessage {
	var b bytes.Buffer
	for i, p := range patterns {
		key, _ := json.Marshal(p.Key)
		value, _ := json.Marshal(p.Value)
		fmt.Fprintf(&b, "%c%s:%s", "{,"[min(i, 1)], key, value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// isMLX reports whether an adapter_config.json is mlx-lm's: the settings of its training.
func isMLX(data []byte) bool {
	o := parseObject(data)
	return !o.has("peft_type") && (o.has("lora_parameters") || o.has("fine_tune_type"))
}

// parseMLX reads mlx-lm's adapter_config.json, which has the scale itself. Which modules have adapters follows from the
// tensors: the keys in the file have no names of layers, and count these from the end.
func parseMLX(data []byte, modules []string) (spec lora.Spec, base string, err error) {
	o := parseObject(data)
	if kind := optional(o, "fine_tune_type", "lora"); kind != "lora" {
		o.fail("fine_tune_type is %.60q: only lora is supported", kind)
	}
	p := &object{keys: get(o, "lora_parameters", map[string]json.RawMessage(nil)), err: o.err}
	if !p.has("rank") || !p.has("scale") {
		p.fail("lora_parameters lacks rank or scale")
	}
	for _, key := range slices.Sorted(maps.Keys(p.keys)) {
		if !slices.Contains([]string{"rank", "scale", "dropout", "keys"}, key) && p.effective(key) {
			p.fail("lora_parameters has %.60q: this key is unknown and may change the result", key)
		}
	}
	spec = lora.Spec{Rank: get(p, "rank", 0), Dropout: optional(p, "dropout", 0.0), Targets: lora.Targets{Names: modules}}
	spec.Alpha = get(p, "scale", 0.0) * float64(spec.Rank)
	if base = optional(o, "model", ""); p.err == nil {
		p.err = o.err
	}
	if p.err == nil && modules == nil {
		p.fail("there are no tensors lora_a and lora_b")
	}
	if p.err == nil {
		p.err = spec.Validate()
	}
	if p.err != nil {
		return lora.Spec{}, "", fmt.Errorf("%s: %w", adapterConfigName, p.err)
	}
	return spec, base, nil
}
