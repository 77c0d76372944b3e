package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/tokenizer"
)

// TestFromScratchCharacters trains a GPT on the characters of a text, whose vocabulary is smaller than one of bytes
// could be, and continues the run. Then it names a character of another text that the vocabulary lacks.
func TestFromScratchCharacters(t *testing.T) {
	dir := t.TempDir()
	config, text, other := filepath.Join(dir, "config.json"), filepath.Join(dir, "text.txt"),
		filepath.Join(dir, "other.txt")
	writeFile(t, config, `{"model_type": "nanogpt", "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32,
		"tie_word_embeddings": true}`)
	const line = "“To be, or not to be”: that is the question.\r\n"
	writeFile(t, text, "\ufeff"+strings.Repeat(line, 100))
	writeFile(t, other, strings.Repeat(line, 100)+"To bé.\n")
	out := filepath.Join(dir, "out")
	args := []string{"--from-scratch", config, "--text", text, "--vocab", "chars", "--out", out, "--seq", "32", "--lr",
		"1e-2",
		"--epochs", "3", "--benchmark-log", "", "--fused"}
	f := summaryOf(t, must(t, cli.Done, args...))
	if f.ValLoss == nil || float64(*f.ValLoss) > 1 {
		t.Errorf("summary %+v", f)
	}
	if again := summaryOf(t, must(t, cli.Done, append(args, "--epochs", "4", "--resume")...)); again.Steps <= f.Steps {
		t.Errorf("continued: %+v", again)
	}
	tok, err := tokenizer.Load(filepath.Join(out, "tokenizer.json"))
	expect.OK(t, err)
	const characters = "\n\r ,.:Tabehinoqrstu“”"
	var made struct {
		Vocab int  `json:"vocab_size"`
		EOS   *int `json:"eos_token_id"`
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(out, "config.json")), &made); err != nil ||
		made.Vocab != len([]rune(characters)) || made.EOS != nil || tok.VocabSize() != made.Vocab {
		t.Errorf("the config has %+v and the tokenizer %d tokens, %v", made, tok.VocabSize(), err)
	}
	for i, r := range []rune(characters) {
		if tok.Token(int32(i)) != string(r) {
			t.Errorf("token %d is %q, want %q", i, tok.Token(int32(i)), r)
		}
	}
	o := must(t, cli.Failed, "--model", out, "--text", other, "--seq", "32", "--out", out+"2")
	if !strings.Contains(o.stderr, "line 101: character 'é' (U+00E9)") {
		t.Error(o.stderr)
	}
	scratch := []string{"--from-scratch", config, "--text", text, "--text", other, "--vocab", "chars", "--seq", "32"}
	if o := must(t, cli.Done, append(scratch, "--dry-run", "--out", out+"3")...); !strings.Contains(o.stderr,
		"a vocabulary of 22 characters") {
		t.Error(o)
	}
	// A tokenizer is given as a file or as its directory.
	scratch = []string{"--from-scratch", tinyBase + "/config.json", "--data", rows(t, 3), "--dry-run", "--out", out + "3"}
	must(t, cli.Done, append(scratch, "--tokenizer", tinyBase+"/tokenizer.json")...)
	must(t, cli.Done, append(scratch, "--tokenizer", tinyBase)...)
	if o := must(t, cli.Failed, append(scratch, "--tokenizer", dir)...); !strings.Contains(o.stderr,
		"--tokenizer: there is no tokenizer.json in "+dir) {
		t.Error(o)
	}
	for want, args := range map[string][]string{
		"must be bpe or chars": {"--from-scratch", config, "--text", text, "--vocab", "bytes"},
		"needs --from-scratch": {"--from-scratch", config, "--vocab", "chars"},
		"and --text":           {"--text", text, "--vocab", "chars"},
		"leave one out":        {"--from-scratch", config, "--text", text, "--vocab", "chars", "--tokenizer", dir},
	} {
		if o := must(t, cli.Usage, append(args, "--out", out+"3")...); !strings.Contains(o.stderr, want) {
			t.Errorf("%q: %s", args, o.stderr)
		}
	}
}

// TestDataScratch_Models checks the models that data/scratch describes, on the text there.
func TestDataScratch_Models(t *testing.T) {
	for config, want := range map[string]string{"gpt": "810,752 parameters", "llama": "10,649,472 parameters"} {
		o := must(t, cli.Done, "--from-scratch", "../../data/scratch/"+config+".json", "--text", "../../data/scratch/oz.txt",
			"--vocab", "chars", "--seq", "64", "--dry-run", "--out", filepath.Join(t.TempDir(), "out"))
		if !strings.Contains(o.stdout, want) || !strings.Contains(o.stdout, "vocabulary 72") {
			t.Errorf("%s: %s", config, o.stdout)
		}
	}
}
