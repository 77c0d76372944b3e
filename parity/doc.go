// Package parity compares what a device computes with recordings of other programs: transformers, PyTorch and
// bitsandbytes. It also compares a tokenizer with recordings of Hugging Face's. Recordings of other texts, such as chat
// templates, are compared by the tests of their packages.
//
// Each directory of reference outputs has a kind. Its files, never its name, decide which one, so that anyone can check
// another model by recording a directory of the same form (testdata/make_goldens.py does):
//
//	model      config.json, weights, golden.safetensors: forward, all gradients, packing, accumulation, training, greedy
//	lora       config.json, weights, an adapter, lora.safetensors: PEFT's gradients, training and merged weights
//	gguf       gguf.json: GGUF's blocks, models and damaged files, as llama.cpp and gguf-py write and read them
//	full       config.json and a golden.json with a generator: a model too large to store, with weights from a seed
//	tokenizer  vectors*.jsonl with tokenizer*.json: texts and their tokens
//	ops        OP.json with OP.safetensors for each operation: inputs at odd sizes and values, exact results, gradients
//	optim      a safetensors file with bitsandbytes' dynamic maps: its 8-bit AdamW on CUDA, PyTorch's AdamW on the CPU
//
// A ledger has an entry for every recorded value. Run marks an entry when it compares the value, or uses it as an input
// or a limit. An entry without a mark is a failure, so no value is silently ignored.
package parity
