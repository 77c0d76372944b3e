package model

// names are the names that the files of a family give to parameters and settings, and the layout of their matrices.
type names struct {
	embed, positions, norm string
	layer                  string // format of the prefix in layers
	norm1, norm2           string
	qkv, gateUp            []string // one name if the file has them in one matrix
	o, down                string
	router, expert         string // of a mixture, the second the format of the prefix of an expert's parameters
	expertGateUp           []string
	expertDown             string
	transposed             bool              // files store the matrices in layers as [in, out]
	keys                   map[string]string // of config.json, if they are not Llama's
}

var (
	llamaNames = names{embed: "model.embed_tokens", norm: "model.norm", layer: "model.layers.%d.",
		norm1: "input_layernorm", norm2: "post_attention_layernorm",
		qkv: []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, o: "self_attn.o_proj",
		gateUp: []string{"mlp.gate_proj", "mlp.up_proj"}, down: "mlp.down_proj",
		router: "mlp.gate", expert: "mlp.experts.%d.", expertGateUp: []string{"gate_proj", "up_proj"},
		expertDown: "down_proj"}
	nanoGPTNames = names{embed: "transformer.wte", positions: "transformer.wpe", norm: "transformer.ln_f",
		layer: "transformer.h.%d.", norm1: "ln_1", norm2: "ln_2", qkv: []string{"attn.c_attn"}, o: "attn.c_proj",
		gateUp: []string{"mlp.c_fc"}, down: "mlp.c_proj",
		keys: map[string]string{"hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer",
			"num_attention_heads": "n_head", "max_position_embeddings": "n_positions", "rms_norm_eps": "layer_norm_epsilon"}}
)

// names returns the names of the model's family.
func (c Config) names() names {
	switch c.Family {
	case "gpt2":
		n := nanoGPTNames
		n.transposed = true
		return n
	case "mixtral":
		n := llamaNames
		n.router, n.expert = "block_sparse_moe.gate", "block_sparse_moe.experts.%d."
		n.expertGateUp, n.expertDown = []string{"w1", "w3"}, "w2"
		return n
	case "nanogpt":
		return nanoGPTNames
	}
	return llamaNames
}

// key returns the family's key in config.json for a setting of Llama's name, such as n_embd for hidden_size.
func (c Config) key(llama string) string {
	if name := c.names().keys[llama]; name != "" {
		return name
	}
	return llama
}

// split returns the rows of a matrix that belong to several parameters, of these sizes, or to a single one.
func split(names []string, sizes ...int) (parts []rows) {
	if len(names) == 1 {
		total := 0
		for _, n := range sizes {
			total += n
		}
		sizes = []int{total}
	}
	for i, name := range names {
		parts = append(parts, rows{name, sizes[i]})
	}
	return parts
}
