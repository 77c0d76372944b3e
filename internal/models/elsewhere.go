package models

import (
	"fmt"

	"restyle/hf"
	"restyle/model"
)

// Elsewhere returns the part of a model card that shows how other programs use a model, from its directory: "" if they
// do not know such models. base is the hub id of an adapter's base, "" of a whole model.
func Elsewhere(c model.Config, base string, adapter bool) string {
	if hf.GGUFArchitecture(c) == "" {
		return ""
	}
	serve := "vllm serve ."
	if adapter {
		if base == "" {
			base = "PATH_OF_THE_BASE_MODEL"
		}
		serve = fmt.Sprintf("vllm serve %s --enable-lora --lora-modules tuned=.", base)
	}
	return fmt.Sprintf(elsewhere, serve)
}

const elsewhere = "\n## Elsewhere\n\n```\n" + `# vLLM
%s
# for the others, restyle writes a file
env export . model.gguf --gguf q4_k_m # env, because shells have an export of their own
# llama.cpp
llama-cli -m model.gguf
# ollama
ollama create tuned -f model.Modelfile
# LM Studio
lms import model.gguf
` + "```\n\n"
