// Package parity compares what this module computes with what other programs recorded: transformers and PyTorch for models,
// tokenizers for tokenizers, Jinja2 for chat templates.
//
// Reference outputs lie in folders. A folder is recognised by its files, never by its name, so that anybody can prove
// another model by recording a folder of the same form (testdata/make_goldens.py does):
//
//	model      config.json, weights and golden.safetensors: forward, every gradient, packing, accumulation, training, greedy
//	full       config.json and a golden.json with a generator: a model too large to store, whose weights follow from a seed
//	tokenizer  vectors*.jsonl beside tokenizer*.json, stream.jsonl, unicode_classes.json, or corpus.txt with merges
//	chat       one <family>.jsonl a chat template: conversations and what they are rendered to
//	infer      sampling.jsonl: logits and the distributions that are left of them
//	optim      a safetensors file with bitsandbytes' dynamic maps: its 8-bit AdamW on CUDA, PyTorch's AdamW on the CPU
//
// Each figure in a folder is entered in a ledger before anything is computed, and struck out when it has been compared or
// served as an input or a limit. What is left at the end is a failure that names it, so nothing is passed over in silence.
package parity
