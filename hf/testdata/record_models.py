"""Records two tiny models as transformers writes them, and their values, beside this script.

    pip install transformers==5.23.0 torch==2.15.0 safetensors==0.8.0
    python record_models.py

tied:    BF16, one file, llama3 RoPE scaling in the keys of transformers 5
sharded: F16, untied, several files with an index, older keys
values.json has, for each weight, its sum in float64 and its first and last value. every_type.safetensors has a tensor
of each type that is read.
"""
import json
import os
import shutil

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

assert transformers.__version__ == "5.23.0" and torch.__version__.startswith("2.15.0")
here = os.path.dirname(os.path.abspath(__file__))
small = dict(vocab_size=20, hidden_size=16, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=4, max_position_embeddings=64)


def record(name, dtype, shard, **keys):
    torch.manual_seed(20)
    model = LlamaForCausalLM(LlamaConfig(**small, **keys))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.5)
        if dtype == torch.float16:  # its largest, smallest and a subnormal number
            model.model.norm.weight[:3] = torch.tensor([65504.0, 2.0**-24, 5 * 2.0**-20])
    model = model.to(dtype)
    out = os.path.join(here, name)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out, max_shard_size=shard)
    f = lambda v: v.detach().double().flatten()
    loaded = LlamaForCausalLM.from_pretrained(out, dtype=torch.float32)
    return {k: [float(f(v).sum()), float(f(v)[0]), float(f(v)[-1])] for k, v in loaded.named_parameters()}


values = {
    "tied": record("tied", torch.bfloat16, "1GB", tie_word_embeddings=True, eos_token_id=[2, 5],
                   rope_parameters=dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                                        high_freq_factor=4.0, original_max_position_embeddings=32)),
    "sharded": record("sharded", torch.float16, "3KB"),
}
# The second in the keys that repositories on the hub have.
path = os.path.join(here, "sharded", "config.json")
config = json.load(open(path))
config["torch_dtype"] = config.pop("dtype")
config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
json.dump(config, open(path, "w"), indent=2)
json.dump(values, open(os.path.join(here, "values.json"), "w"), indent=1)

count = np.arange(6).reshape(2, 3)
safetensors.torch.save_file({
    "f32": torch.tensor([[0.0, -0.0, 1.5], [3.4e38, -1e-45, 2.0]]), "f16": torch.tensor(count - 3).half(),
    "bf16": torch.tensor(count - 3).bfloat16(), "i64": torch.tensor(count - 3), "i32": torch.tensor(count - 3).int(),
    "u8": torch.tensor(count + 250).to(torch.uint8), "bool": torch.tensor([True, False]), "f64": torch.tensor([1.0]).double(),
    "scalar": torch.tensor(7.0), "empty": torch.zeros(0, 4),
}, os.path.join(here, "every_type.safetensors"), metadata={"made by": "record_models.py"})
