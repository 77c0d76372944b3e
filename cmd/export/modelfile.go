package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"restyle/chat"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
)

// writeModelfile writes a Modelfile of ollama beside a GGUF file, and returns its path, "" if there is one already,
// which it leaves.
func writeModelfile(out string, c *hf.Checkpoint) (path string, err error) {
	path = strings.TrimSuffix(out, filepath.Ext(out)) + ".Modelfile"
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return path, disk.Write(path, []byte(modelfile(filepath.Base(out), c)), 0o666)
}

// modelfile returns what ollama needs to know of a model: its file, its chat template in ollama's own language, and
// what ends an answer.
func modelfile(file string, c *hf.Checkpoint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# ollama create NAME -f THIS_FILE\nFROM ./%s\n", file)
	codec, err := infer.CodecOf(c, "")
	if err != nil {
		return b.String()
	}
	if text, ok := ollamaTemplate(codec.Template); ok {
		fmt.Fprintf(&b, "TEMPLATE \"\"\"%s\"\"\"\n", text)
	} else {
		b.WriteString("# The chat template is that of the file. It does not wrap each message by itself, so it has no form here.\n")
	}
	var ends []string
	for _, id := range codec.Ends {
		ends = append(ends, codec.Tokenizer.Token(id))
	}
	slices.Sort(ends)
	for _, end := range slices.Compact(ends) {
		fmt.Fprintf(&b, "PARAMETER stop %s\n", strconv.Quote(end))
	}
	if s := codec.Suggested; s != nil {
		fmt.Fprintf(&b, "PARAMETER temperature %v\nPARAMETER top_k %d\nPARAMETER top_p %v\n", s.Temperature, s.TopK, s.TopP)
	}
	return b.String()
}

// ollamaTemplate returns a chat template in the language of Go's text/template, as ollama reads it; ok is false if the
// template is none that puts fixed text around each message. What that text is, it finds by rendering conversations.
// BOS is left out, as ollama adds it.
func ollamaTemplate(t chat.Template) (text string, ok bool) {
	render := func(prompt bool, contents ...string) (string, bool) {
		var messages []chat.Message
		for i := 0; i < len(contents); i += 2 {
			messages = append(messages, chat.Message{Role: contents[i], Content: contents[i+1]})
		}
		r, err := t.Render(messages, chat.Options{AddGenerationPrompt: prompt})
		return strings.TrimPrefix(r.Text, t.BOS), err == nil
	}
	const system, user, answer, last = "SYSTEM1", "USER1", "ANSWER1", "USER2"
	whole, ok1 := render(true, "system", system, "user", user, "assistant", answer, "user", last)
	pair, ok2 := render(false, "user", user, "assistant", answer)
	one, ok3 := render(false, "user", user)
	if !ok1 || !ok2 || !ok3 {
		return "", false
	}
	beforeUser, afterUser, found1 := strings.Cut(one, user)
	beforeSystem, rest, found2 := strings.Cut(whole, system)
	afterSystem, _, found3 := strings.Cut(rest, beforeUser+user)
	between, afterAnswer, found4 := strings.Cut(strings.TrimPrefix(pair, one), answer)
	_, prompt, found5 := strings.Cut(whole, last+afterUser)
	if !found1 || !found2 || !found3 || !found4 || !found5 || !strings.HasPrefix(pair, one) {
		return "", false
	}
	joined := beforeSystem + system + afterSystem + beforeUser + user + afterUser + between + answer + afterAnswer +
		beforeUser + last + afterUser + prompt
	if joined != whole || strings.Contains(whole, "{{") || strings.Contains(whole, `"""`) {
		return "", false
	}
	return `{{- range .Messages }}{{ if eq .Role "system" }}` + beforeSystem + `{{ .Content }}` + afterSystem +
		`{{ else if eq .Role "user" }}` + beforeUser + `{{ .Content }}` + afterUser + `{{ else if eq .Role "assistant" }}` +
		between + `{{ .Content }}` + afterAnswer + `{{ end }}{{ end }}` + prompt, true
}

// uses says how a file is used.
func uses(out, modelfile string) string {
	quoted := cli.ShellQuote(out)
	lines := [][2]string{{"restyle", cli.Command("chat") + " --tuned " + quoted + " --only tuned"},
		{"llama.cpp", "llama-cli -m " + quoted},
		{"LM Studio", "lms import " + quoted}}
	if modelfile != "" {
		lines = append(lines, [2]string{"ollama", fmt.Sprintf("ollama create %s -f %s", nameOf(out), cli.ShellQuote(modelfile))})
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "  %-10s %s\n", l[0], l[1])
	}
	return b.String()
}
