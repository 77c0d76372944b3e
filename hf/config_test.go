package hf

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/model"
)

// recorded is what testdata/record_configs.py wrote about one config.json.
type recorded struct {
	Name    string
	Config  json.RawMessage
	Refused string
	Model   *struct {
		Parameters               int64
		Tensors                  map[string][]int
		Layers, Heads, Positions int
		KVHeads                  int `json:"kv_heads"`
		HeadDim                  int `json:"head_dim"`
		Eps, Theta               float64
		Scaling                  *struct {
			Factor   float64 `json:"factor"`
			Low      float64 `json:"low_freq_factor"`
			High     float64 `json:"high_freq_factor"`
			Original int     `json:"original_max_position_embeddings"`
		}
		Tied     bool
		Windows  []*int
		Pad      *int
		BOS, EOS []int32
	}
}

// differ lists the cases in which this package and transformers differ. The value is part of this package's error, or
// "" if it loads what transformers refuses.
var differ = map[string]string{
	"llama, sliding_window 8":                 "sliding_window is 8", // in generate, the cache drops what the mask shows
	"llama, sliding_window 8 switched on":     "sliding_window is 8",
	"llama, switched on from layer 0":         "sliding_window is 8",
	"llama, switched on from layer 1":         "sliding_window is 8",
	"llama, layer_types sliding":              "sliding_window is 8",
	"qwen2, switched on from layer 1":         "1 of 2 layers have a sliding window",
	"qwen3, switched on from layer 1":         "1 of 2 layers have a sliding window",
	"mistral, width that heads do not divide": "no multiple of the 4 attention heads",
	"qwen2, width that heads do not divide":   "no multiple of the 4 attention heads",
	"linear":                                  "", // the script describes no scaling but Llama 3's
	"yarn":                                    "",
	"gelu":                                    `hidden_act "gelu"`,
	"quantised":                               "quantization_config",
	"gpt2":                                    "", // the script that recorded the cases cannot describe it
	"qwen2, head_dim null":                    "", // meant as absent, as in the other classes
	"mistral, key heads null":                 "",
	"mistral, layer_types sliding":            "", // transformers itself fails on these keys
}

func TestConfigsAsTransformersReadsThem(t *testing.T) {
	data, err := os.ReadFile("testdata/configs.json")
	expect.OK(t, err)
	var cases []recorded
	expect.OK(t, json.Unmarshal(data, &cases))
	if len(cases) < 100 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, r := range cases {
		t.Run(r.Name, func(t *testing.T) {
			c, err := ParseConfig(r.Config)
			want, special := differ[r.Name]
			switch {
			case special && want == "":
				if err != nil {
					t.Errorf("refused: %v", err)
				}
			case special || r.Model == nil:
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, %v; want an error with %q (transformers: %s)", c, err, want, r.Refused)
				}
			case err != nil:
				t.Errorf("refused: %v", err)
			default:
				r.compare(t, c)
			}
		})
	}
}

// TestRoPEScaling reads every key of each kind of scaling, and the defaults of absent ones.
func TestRoPEScaling(t *testing.T) {
	const small = `{"model_type":"llama","vocab_size":48,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":1,` +
		`"num_attention_heads":4,"max_position_embeddings":32,`
	for text, want := range map[string]model.RoPEScaling{
		`"rope_scaling":{"type":"linear","factor":2.5}`:     {Kind: model.RoPELinear, Factor: 2.5},
		`"rope_scaling":{"rope_type":"dynamic","factor":3}`: {Kind: model.RoPEDynamic, Factor: 3},
		`"rope_parameters":{"rope_type":"yarn","factor":4}`: {Kind: model.RoPEYaRN, Factor: 4,
			OriginalMaxPositions: 32, BetaFast: 32, BetaSlow: 1},
		`"original_max_position_embeddings":8,"rope_scaling":{"type":"yarn","factor":null,"beta_fast":0,"beta_slow":0.5,` +
			`"truncate":false,"mscale":0.7,"mscale_all_dim":1,"attention_factor":1.2,"original_max_position_embeddings":16}`: {
			Kind: model.RoPEYaRN, Factor: 4, OriginalMaxPositions: 8, BetaFast: 32, BetaSlow: 0.5, Untruncated: true,
			MScale: 0.7, MScaleAllDim: 1, AttentionFactor: 1.2},
		`"rope_scaling":{"type":"longrope","short_factor":[1,2],"long_factor":[3,4],"original_max_position_embeddings":16}`: {
			Kind: model.RoPELong, Factor: 2, OriginalMaxPositions: 16, Short: []float64{1, 2}, Long: []float64{3, 4}},
		`"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4}`: {
			Kind: model.RoPELlama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 32},
	} {
		c, err := ParseConfig([]byte(small + text + "}"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(&want, c.RoPEScaling); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func (r recorded) compare(t *testing.T, c model.Config) {
	m := r.Model
	want := c
	want.Layers, want.Heads, want.KVHeads, want.HeadDim, want.MaxPositions = m.Layers, m.Heads, m.KVHeads, m.HeadDim,
		m.Positions
	want.NormEps, want.RoPETheta, want.Tied, want.BOS, want.EOS = float32(m.Eps), m.Theta, m.Tied, m.BOS, m.EOS
	want.RoPEScaling, want.Window, want.PadID = nil, 0, -1
	if s := m.Scaling; s != nil {
		want.RoPEScaling = &model.RoPEScaling{Kind: model.RoPELlama3,
			Factor: s.Factor, LowFreqFactor: s.Low, HighFreqFactor: s.High,
			OriginalMaxPositions: s.Original}
	}
	if len(m.Windows) != 1 {
		t.Errorf("%d kinds of window", len(m.Windows))
	} else if m.Windows[0] != nil {
		want.Window = *m.Windows[0]
	}
	if m.Pad != nil {
		want.PadID = *m.Pad
	}
	if diff := cmp.Diff(want, c, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got := c.ParamCount(); got != m.Parameters {
		t.Errorf("%d parameters, want %d", got, m.Parameters)
	}
	if m.Tensors != nil {
		got := map[string][]int{}
		for _, s := range c.Params() {
			got[s.Name] = s.W.Shape
		}
		if diff := cmp.Diff(m.Tensors, got); diff != "" {
			t.Errorf("tensors (-want +got):\n%s", diff)
		}
	}
}

// TestConfigRefuses checks configs for which no model can be computed correctly.
//
//nolint:lll // JSON in one piece
func TestConfigRefuses(t *testing.T) {
	const small = `{"model_type":"llama","vocab_size":48,"hidden_size":32,"intermediate_size":24,"num_hidden_layers":2,"num_attention_heads":4`
	for _, test := range []struct{ config, want string }{
		{``, "not a JSON object"},
		{`null`, "null where a JSON object should be"},
		{`[]`, "not a JSON object"},
		{small, "not a JSON object"},
		{small + "}\xff", "not UTF-8"},
		{`{}`, "no model_type: llama, mistral"},
		{`{"model_type":"gemma3"}`, `model_type "gemma3": llama, mistral`},
		{`{"model_type":7}`, "model_type is 7, which is not a string"},
		{small + `,"architectures":["LlamaForSequenceClassification"]}`, "only LlamaForCausalLM"},
		{small + `,"pretraining_tp":2}`, "pretraining_tp is 2: products in slices"},
		{small + `,"partial_rotary_factor":0.5,"rope_scaling":{"type":"linear","factor":2}}`,
			"rope_scaling: partial_rotary_factor is 0.5"},
		{small + `,"rope_parameters":{"rope_type":"linear","factor":2,"partial_rotary_factor":0.5}}`,
			"rope_parameters: partial_rotary_factor is 0.5"},
		{small + `,"rope_scaling":{"type":"linear"}}`, "rope_scaling: factor is missing"},
		{small + `,"rope_scaling":{"type":"linear","factor":0}}`, "factor 0: must be positive"},
		{small + `,"rope_scaling":{"type":"yarn","factor":2,"beta_fast":1,"beta_slow":2}}`, "beta_fast 1: must be at least"},
		{small + `,"rope_scaling":{"type":"yarn","factor":2,"attention_factor":0}}`, "attention_factor is 0"},
		{small + `,"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[2]}}`, "_factor has 1 numbers"},
		{small + `,"rope_scaling":{"type":"ntk","factor":2}}`, `rope_type "ntk"`},
		{small + `,"rope_parameters":{"full_attention":{"rope_theta":1}}}`, "RoPE that differs between layers"},
		{small + `,"rope_parameters":[]}`, "rope_parameters: it is not a JSON object"},
		{small + `,"rope_scaling":{"rope_type":null}}`, "rope_type is null"},
		{small + `,"rope_theta":-1}`, "rope_theta -1: must be positive"},
		{small + `,"rope_theta":1e999}`, "rope_theta is 1e999, which is not a number"},
		{small + `,"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4}}`,
			"low_freq_factor: must be less"},
		{small + `,"rope_scaling":{"type":"llama3","factor":0,"low_freq_factor":1,"high_freq_factor":4}}`,
			"rope_scaling: factor"},
		{small + `,"per_layer_config":{}}`, "per_layer_config"},
		{small + `,"layer_types":["full_attention","mamba"]}`, `layer_types has "mamba"`},
		{small + `,"num_key_value_heads":3}`, "num_attention_heads 4: must be a multiple of num_key_value_heads 3"},
		{small + `,"num_key_value_heads":8}`, "num_attention_heads 4: must be a multiple of num_key_value_heads 8"},
		{small + `,"num_attention_heads":5}`, "hidden_size 32 is no multiple of the 5"},
		{small + `,"num_attention_heads":0}`, "num_attention_heads 0"},
		{small + `,"num_hidden_layers":0}`, "num_hidden_layers 0"},
		{small + `,"num_hidden_layers":99999}`, "num_hidden_layers 99999"},
		{small + `,"hidden_size":-32}`, "hidden_size -32"},
		{small + `,"vocab_size":9223372036854775807}`, "vocab_size 9223372036854775807"},
		{small + `,"vocab_size":9223372036854775808}`, "which is not a whole number"},
		{small + `,"intermediate_size":4194304,"hidden_size":4194304,"num_hidden_layers":4096}`, "parameters: more than"},
		{small + `,"max_position_embeddings":1099511627776}`, "max_position_embeddings 1099511627776: must be 1 to 16777216"},
		{small + `,"rms_norm_eps":-1}`, "rms_norm_eps -1"},
		{small + `,"rms_norm_eps":1e300}`, "rms_norm_eps +Inf"},
		{small + `,"head_dim":9}`, "head_dim 9: must be even"},
		{small + `,"head_dim":4194304}`, "must be at most"},
		{small + `,"pad_token_id":48}`, "pad_token_id 48 is outside the vocabulary of 48: set it to null"},
		{small + `,"pad_token_id":-49}`, "pad_token_id -49 is outside the vocabulary of 48"},
		{small + `,"eos_token_id":[1,null]}`, "eos_token_id is [1,null], which is not a token id"},
		{small + `,"eos_token_id":4294967296}`, "eos_token_id is 4294967296, which is not a token id"},
		{strings.Replace(small, "llama", "mistral", 1) + `,"sliding_window":0}`, "sliding_window is 0"},
	} {
		c, err := ParseConfig([]byte(test.config))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "config.json: ") {
			t.Errorf("%s: got %v, %v; want an error with %q", test.config, c.Family, err, test.want)
		}
	}
}

//nolint:lll // JSON in one piece
func TestGenerationConfig(t *testing.T) {
	plain := GenerationConfig{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1}
	llama := GenerationConfig{BOS: []int32{128000}, EOS: []int32{128001, 128008, 128009}, DoSample: true,
		Temperature: 0.6, TopK: 50, TopP: 0.9, RepetitionPenalty: 1}
	for _, test := range []struct {
		data string
		want GenerationConfig
		err  string
	}{
		{`{}`, plain, ""},
		{`{"temperature":null,"top_k":null,"eos_token_id":null}`, plain, ""},
		{`{"bos_token_id":128000,"do_sample":true,"eos_token_id":[128001,128008,128009],"temperature":0.6,"top_p":0.9,"transformers_version":"4.45.0.dev0"}`, llama, ""},
		{`{"top_k":-1}`, GenerationConfig{Temperature: 1, TopP: 1, RepetitionPenalty: 1}, ""},
		{`{"top_k":0}`, GenerationConfig{Temperature: 1, TopP: 1, RepetitionPenalty: 1}, ""},
		{`{"repetition_penalty":3,"no_repeat_ngram_size":2,"bad_words_ids":[[1],[2,3]],"suppress_tokens":[4,5],"begin_suppress_tokens":[6],"min_new_tokens":7,"min_length":8.0}`,
			GenerationConfig{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 3, NoRepeatNGram: 2,
				Forbidden: [][]int32{{1}, {2, 3}}, Suppressed: []int32{4, 5}, SuppressedFirst: []int32{6}, MinNew: 7, MinTokens: 8}, ""},
		{`{"temperature":-1}`, plain, "temperature is -1: it must be at least 0"},
		{`{"top_p":1.5,"top_k":"many"}`, plain, "top_k is \"many\", which is not a number; top_p is 1.5: it must be from 0 to 1"},
		{`{"eos_token_id":[3],"repetition_penalty":0}`, func() GenerationConfig {
			g := plain
			g.EOS = []int32{3}
			return g
		}(), "repetition_penalty is 0: it must be at least 1e-06"},
		{`{"num_beams":4,"guidance_scale":1.0,"stop_strings":[],"typical_p":1,"sequence_bias":[[[5],-1.5]],"length_penalty":2}`, func() GenerationConfig {
			g := plain
			g.NotApplied = []string{"num_beams 4", "sequence_bias [[[5],-1.5]]"}
			return g
		}(), ""},
		{`{"eos_token_id":-1,"suppress_tokens":[-1]}`, plain, ""},
		{`{"bad_words_ids":[[1.5]]}`, plain, "bad_words_ids is [[1.5]], which is not a list of lists of token ids"},
		{`[]`, plain, "not a JSON object: it is of the type array"},
	} {
		checkParsed(t, ParseGenerationConfig, test.data, test.want, test.err)
	}
}

// checkParsed checks what is read from a file's text, and the error if there must be one with wrong in it.
func checkParsed[T any](t *testing.T, parse func([]byte) (T, error), data string, want T, wrong string) {
	t.Helper()
	got, err := parse([]byte(data))
	if wrong != "" {
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", data, err, wrong)
		}
		err = nil
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s: %v (-want +got):\n%s", data, err, diff)
	}
}

// TestPadID counts from either end.
func TestPadID(t *testing.T) {
	for text, want := range map[string]int{"{}": -1, `{"pad_token_id":null}`: -1, `{"pad_token_id":0}`: 0,
		`{"pad_token_id":47}`: 47, `{"pad_token_id":-1}`: 47, `{"pad_token_id":-48}`: 0} {
		o := parseObject([]byte(text))
		if got := o.padID(48); got != want || o.err != nil {
			t.Errorf("%s: %d, %v", text, got, o.err)
		}
	}
}

// TestGenerationConfig_NotApplied takes every setting that changes transformers' answers but none here, and tries a
// value that turns it on, the values that turn it off, and no value.
func TestGenerationConfig_NotApplied(t *testing.T) {
	for _, setting := range strings.Fields("num_beams=1 penalty_alpha=0 guidance_scale=1 encoder_repetition_penalty=1 " +
		"encoder_no_repeat_ngram_size=0 typical_p=1 top_h=1 epsilon_cutoff=0 eta_cutoff=0 sequence_bias= " +
		"exponential_decay_length_penalty= forced_bos_token_id= forced_eos_token_id= forced_decoder_ids= " +
		"force_words_ids= constraints= watermarking_config= stop_strings= dola_layers=") {
		name, off, _ := strings.Cut(setting, "=")
		for value, on := range map[string]bool{off: false, off + ".0": false, "null": false, "[]": false, "{}": false,
			"false": false, "5": true, "[7]": true} {
			if value == "" || value == ".0" {
				continue
			}
			g, err := ParseGenerationConfig(fmt.Appendf(nil, "{%q:%s}", name, value))
			if want := name + " " + value; err != nil || on != slices.Equal(g.NotApplied, []string{want}) ||
				!on && g.NotApplied != nil {
				t.Errorf("%s: %q, %v", want, g.NotApplied, err)
			}
		}
	}
}

func TestTokenizerConfig(t *testing.T) {
	for _, test := range []struct {
		data string
		want TokenizerConfig
		err  string
	}{
		{`{}`, TokenizerConfig{}, ""},
		{`{"chat_template":null,"bos_token":null}`, TokenizerConfig{}, ""},
		{`{"chat_template":"{{ x }}","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}}`,
			TokenizerConfig{ChatTemplate: "{{ x }}", BOS: "<s>", EOS: "</s>"}, ""},
		{`{"chat_template":[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}]}`,
			TokenizerConfig{ChatTemplate: "b", ChatTemplates: map[string]string{"tool_use": "a", "default": "b"}}, ""},
		{`{"chat_template":[{"name":"rag","template":"a"}]}`,
			TokenizerConfig{ChatTemplates: map[string]string{"rag": "a"}}, ""},
		{`{"unk_token":"<unk>","pad_token":{"content":"<pad>"},"sep_token":null,"add_bos_token":true,"mask_token":"",` +
			`"extra_special_tokens":{"image_token":"<img>","audio":{"content":"<a>"}},"x":"y"}`,
			TokenizerConfig{Tokens: map[string]string{"unk_token": "<unk>", "pad_token": "<pad>", "image_token": "<img>",
				"audio": "<a>"}}, ""},
		{`{"extra_special_tokens":["<x>"],"cls_token":7}`, TokenizerConfig{}, ""},
		{`{"chat_template":{"tool_use":"a","default":"b"}}`,
			TokenizerConfig{ChatTemplate: "b", ChatTemplates: map[string]string{"tool_use": "a", "default": "b"}}, ""},
		{`{"chat_template":7,"eos_token":"</s>"}`, TokenizerConfig{EOS: "</s>"}, "chat_template is 7, which is not a string"},
		{`{"bos_token":{"text":"<s>"},"chat_template":"x"}`, TokenizerConfig{ChatTemplate: "x"}, "bos_token is"},
		{`{"bos_token":{"content":"<s>"`, TokenizerConfig{}, "not a JSON object"},
	} {
		checkParsed(t, ParseTokenizerConfig, test.data, test.want, test.err)
	}
}

// FuzzConfig checks that every accepted config describes a model that can be computed.
func FuzzConfig(f *testing.F) {
	data, err := os.ReadFile("testdata/configs.json")
	var cases []recorded
	if err != nil || json.Unmarshal(data, &cases) != nil {
		f.Fatal("no cases", err)
	}
	for _, r := range cases {
		f.Add([]byte(r.Config))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := hostile.Parse(t, data, ParseConfig)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if c.ParamCount() < 1 || c.ParamCount() > math.MaxInt64/64 {
			t.Errorf("%d parameters", c.ParamCount())
		}
	})
}

//nolint:lll // JSON in one piece
func FuzzTokenizerConfig(f *testing.F) {
	for _, s := range []string{`{}`, `{"chat_template":[{"name":"default","template":"b"}],"bos_token":{"content":"x"},"eos_token":"y"}`, `{"temperature":1,"top_k":5,"eos_token_id":[1]}`} {
		f.Add([]byte(s))
	}
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		hostile.Within(t, hostile.Linear(len(data)), func() { ParseTokenizerConfig(data) })
		g, err := hostile.Parse(t, data, ParseGenerationConfig)
		if err == nil && (g.TopK < 0 || !(g.Temperature >= 0) || !(g.TopP <= 1)) {
			t.Errorf("%+v", g)
		}
	})
}
