"""Records what transformers makes of config.json files, as configs.json beside this script.

    pip install transformers==5.23.0 torch==2.15.0
    python record_configs.py

Each case is a small config with one thing about it. For those that transformers loads, what counts of the model that it
builds is recorded; for the others, that it refuses.
"""
import json
import os
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

assert transformers.__version__ == "5.23.0", transformers.__version__
transformers.logging.set_verbosity_error()
DROP = object()
SMALL = dict(vocab_size=48, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)


def less(d, *keys):
    return {k: v for k, v in d.items() if k not in keys}


CASES = [(f"{t}, nothing but its type", {"model_type": t}) for t in ("llama", "mistral", "qwen2", "qwen3")]
CASES += [(f"{t}, small", dict(SMALL, model_type=t)) for t in ("llama", "mistral", "qwen2", "qwen3")]


def case(name, base="llama", **keys):
    config = dict(SMALL, model_type=base)
    for k, v in keys.items():
        if v is DROP:
            config.pop(k)
        else:
            config[k] = v
    CASES.append((name, config))


for t in ("llama", "mistral", "qwen2", "qwen3"):
    case(f"{t}, key heads absent", t, num_key_value_heads=DROP, num_attention_heads=32, hidden_size=64)
    case(f"{t}, key heads null", t, num_key_value_heads=None)
    case(f"{t}, head_dim null", t, head_dim=None)
    case(f"{t}, head_dim 24", t, head_dim=24)
    case(f"{t}, attention_bias and mlp_bias", t, attention_bias=True, mlp_bias=True)
    case(f"{t}, tied", t, tie_word_embeddings=True)
    case(f"{t}, width that heads do not divide", t, hidden_size=34)
    case(f"{t}, that with head_dim 16", t, hidden_size=34, head_dim=16)
    case(f"{t}, sliding_window 8", t, sliding_window=8)
    case(f"{t}, sliding_window null", t, sliding_window=None)
    case(f"{t}, sliding_window 8 switched on", t, sliding_window=8, use_sliding_window=True)
    case(f"{t}, switched on from layer 0", t, sliding_window=8, use_sliding_window=True, max_window_layers=0)
    case(f"{t}, switched on from layer 1", t, sliding_window=8, use_sliding_window=True, max_window_layers=1)
    case(f"{t}, switched on, null", t, sliding_window=None, use_sliding_window=True, max_window_layers=0)
    case(f"{t}, layer_types full", t, layer_types=["full_attention"] * 2)
    case(f"{t}, layer_types sliding", t, layer_types=["sliding_attention"] * 2, use_sliding_window=True, sliding_window=8)
    case(f"{t}, layer_types too few", t, layer_types=["full_attention"])
case("attention_bias alone", attention_bias=True)
case("mlp_bias alone", mlp_bias=True)
case("rope_theta an integer", rope_theta=500000)
case("rope_theta null", rope_theta=None)
case("rope_parameters", rope_parameters=dict(rope_theta=5e5, rope_type="default"))
case("rope_parameters without theta", rope_parameters=dict(rope_type="default"), rope_theta=7e5)
case("rope_parameters null", rope_parameters=None, rope_theta=7e5)
case("rope_scaling null", rope_scaling=None, rope_theta=7e5)
case("rope_scaling empty beside rope_parameters", rope_scaling={}, rope_parameters=dict(rope_theta=3e5, rope_type="default"))
case("both", rope_scaling=dict(LLAMA3), rope_parameters=dict(rope_theta=3e5, rope_type="default"))
case("theta inside and outside", rope_scaling=dict(LLAMA3, rope_theta=3e5), rope_theta=7e5)
case("rope_scaling default", rope_scaling=dict(type="default"))
case("llama3", rope_scaling=dict(LLAMA3), rope_theta=5e5)
case("llama3 in rope_parameters", rope_parameters=dict(LLAMA3, rope_theta=5e5))
case("llama3 by type", rope_scaling=dict(less(LLAMA3, "rope_type"), type="llama3"))
case("llama3, type and rope_type", rope_scaling=dict(LLAMA3, type="linear"))
case("llama3 without original length", rope_scaling=less(LLAMA3, "original_max_position_embeddings"), max_position_embeddings=96)
case("llama3, original length outside", rope_scaling=less(LLAMA3, "original_max_position_embeddings"), original_max_position_embeddings=77)
case("llama3, original length in both", rope_scaling=dict(LLAMA3), original_max_position_embeddings=77)
case("llama3 without factor", rope_scaling=less(LLAMA3, "factor"))
case("llama3 without low_freq_factor", rope_scaling=less(LLAMA3, "low_freq_factor"))
case("llama3, integers", rope_scaling=dict(LLAMA3, factor=8, low_freq_factor=1, high_freq_factor=4))
case("linear", rope_scaling=dict(type="linear", factor=2.0))
case("yarn", rope_scaling=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=64))
case("no such rope", rope_scaling=dict(rope_type="spiral"))
case("qwen2, llama3", "qwen2", rope_scaling=dict(LLAMA3))
case("eos a list", eos_token_id=[3, 5])
case("eos null", eos_token_id=None)
case("bos null", bos_token_id=None)
case("eos a string", eos_token_id="</s>")
case("pad", pad_token_id=7)
case("pad null", pad_token_id=None)
case("pad -1", pad_token_id=-1)
case("pad -48", pad_token_id=-48)
case("pad -49", pad_token_id=-49)
case("pad 48", pad_token_id=48)
case("eps", rms_norm_eps=1e-5)
case("eps null", rms_norm_eps=None)
case("tie null", tie_word_embeddings=None)
case("tie a string", tie_word_embeddings="true")
case("vocab null", vocab_size=None)
case("vocab a float", vocab_size=48.0)
case("vocab a string", vocab_size="48")
case("layers true", num_hidden_layers=True)
case("swish", hidden_act="swish")
case("gelu", hidden_act="gelu")
case("act null", hidden_act=None)
case("quantised", quantization_config=dict(quant_method="fp8"))
case("pretraining_tp 1", pretraining_tp=1)
case("architectures", architectures=["LlamaForCausalLM"])
case("architectures null", architectures=None)
case("dtype", dtype="bfloat16")
case("torch_dtype", torch_dtype="float16")
case("capitals", Vocab_Size=7, HIDDEN_ACT="gelu")
case("three key heads for four", num_key_value_heads=3)
case("no key heads", num_key_value_heads=0)
case("odd head_dim", head_dim=5)
case("gpt2", "gpt2")
case("mixtral", "mixtral")


LISTED = ("small", "tied", "head_dim 24", "attention_bias and mlp_bias", "attention_bias alone", "mlp_bias alone")


def look(name, config):
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(config, f)
        c = AutoConfig.from_pretrained(d)
        with torch.device("meta"):
            m = AutoModelForCausalLM.from_config(c)
    # One forward pass: some configs fail only there.
    if c.vocab_size < 1000:
        torch.manual_seed(0)
        real = AutoModelForCausalLM.from_config(c)
        real(torch.tensor([[1, 2, 3]]))
        real(torch.tensor([[1, 2, 3]]), use_cache=False)
    layers = m.model.layers
    attn = layers[0].self_attn
    windows = [getattr(l.self_attn, "sliding_window", None) for l in layers]
    if c.model_type == "mistral":
        windows = [c.sliding_window] * len(layers)
    rope = c.rope_parameters
    tied = m.lm_head.weight is m.model.embed_tokens.weight
    names = {k: list(v.shape) for k, v in m.state_dict().items() if not (tied and k == "lm_head.weight")}
    as_list = lambda x: x if isinstance(x, list) else [] if x is None else [x]
    return {
        "parameters": sum(p.numel() for p in m.parameters()),
        "tensors": names if name.endswith(LISTED) else None,
        "layers": len(layers), "heads": c.num_attention_heads, "kv_heads": c.num_key_value_heads, "head_dim": attn.head_dim,
        "positions": c.max_position_embeddings, "eps": m.model.norm.variance_epsilon,
        "theta": rope["rope_theta"], "scaling": rope if rope["rope_type"] == "llama3" else None, "tied": tied,
        "windows": list(dict.fromkeys(windows)), "pad": m.model.embed_tokens.padding_idx,
        "bos": as_list(c.bos_token_id), "eos": as_list(c.eos_token_id),
    }


def main():
    out = []
    for name, config in CASES:
        entry = {"name": name, "config": config}
        try:
            entry["model"] = look(name, config)
        except Exception as e:
            entry["refused"] = (type(e).__name__ + ": " + " ".join(str(e).split()))[:100]
        out.append(entry)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "configs.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in out) + "\n]\n")


main()
