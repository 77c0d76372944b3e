package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"restyle/chat"
	"restyle/hf"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/tokenizer"
)

// modelfileEnd is the ending of the name of the Modelfile next to a GGUF file.
const modelfileEnd = ".Modelfile"

// writeModelfile writes a Modelfile for ollama next to a GGUF file, and returns its path.
func writeModelfile(out string, c *hf.Checkpoint) (path string, err error) {
	path = beside(out, modelfileEnd)
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
	bos := "" // what ollama adds, because the file says so
	if first := codec.Tokenizer.Encode("a", tokenizer.EncodeOptions{AddSpecial: true}).IDs; len(first) > 1 {
		bos = codec.Tokenizer.Token(first[0])
	}
	if text, ok := ollamaTemplate(codec.Template, bos); ok {
		fmt.Fprintf(&b, "TEMPLATE \"\"\"%s\"\"\"\n", text)
	} else {
		b.WriteString("# The chat template is in the file: it puts no fixed text around messages, so it has no form here.\n")
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
		if s.MinP > 0 {
			fmt.Fprintf(&b, "PARAMETER min_p %v\n", s.MinP)
		}
		if s.RepetitionPenalty > 1 {
			fmt.Fprintf(&b, "PARAMETER repeat_penalty %v\n", s.RepetitionPenalty)
		}
	}
	return b.String()
}

// ollamaTemplate returns a chat template in the language of Go's text/template, as ollama reads it. bos, which ollama
// adds, is left out. ok is false if the template does not just put fixed text around each message, perhaps after a
// default system message. ollamaTemplate finds that text by rendering conversations, and then tries it on others.
func ollamaTemplate(t chat.Template, bos string) (text string, ok bool) {
	const system, user, answer, last = "SYSTEM1", "USER1", "ANSWER1", "USER2"
	whole := render(t, bos, true, "system", system, "user", user, "assistant", answer, "user", last)
	beforeSystem, rest, found1 := strings.Cut(whole, system)
	betweenFirst, rest, found2 := strings.Cut(rest, user)
	beforeAnswer, rest, found3 := strings.Cut(rest, answer)
	betweenSecond, prompt, found4 := strings.Cut(rest, last)
	begin, afterUser, found5 := strings.Cut(render(t, bos, false, "user", user), user)
	_, afterAnswer, found6 := strings.Cut(render(t, bos, false, "user", user, "assistant", answer), answer)
	if !found1 || !found2 || !found3 || !found4 || !found5 || !found6 || strings.Contains(whole, "{{") ||
		strings.Contains(whole+begin, `"""`) {
		return "", false
	}
	beforeUser := strings.TrimPrefix(betweenSecond, afterAnswer)
	afterSystem := strings.TrimSuffix(betweenFirst, beforeUser)
	var b strings.Builder
	if unasked := strings.TrimSuffix(begin, beforeUser); unasked != "" {
		fmt.Fprintf(&b, `{{- if ne (index .Messages 0).Role "system" }}%s{{ end }}`, unasked)
	}
	b.WriteString("{{- range .Messages }}")
	for i, m := range []struct{ role, before, after string }{{"system", beforeSystem, afterSystem},
		{"user", beforeUser, afterUser}, {"assistant", strings.TrimPrefix(beforeAnswer, afterUser), afterAnswer}} {
		more := "else "
		if i == 0 {
			more = ""
		}
		fmt.Fprintf(&b, `{{ %sif eq .Role %q }}%s{{ .Content }}%s`, more, m.role, m.before, m.after)
	}
	b.WriteString("{{ end }}{{ end }}" + strings.TrimPrefix(prompt, afterUser))
	return b.String(), sameTexts(t, bos, b.String())
}

// render renders messages, given as roles and contents, without bos; "" if the template refuses them.
func render(t chat.Template, bos string, prompt bool, messages ...string) string {
	r, err := t.Render(conversation(messages), chat.Options{AddGenerationPrompt: prompt})
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(r.Text, bos)
}

func conversation(messages []string) (list []chat.Message) {
	for i := 0; i < len(messages); i += 2 {
		list = append(list, chat.Message{Role: messages[i], Content: messages[i+1]})
	}
	return list
}

// sameTexts reports whether a template in Go's language renders conversations as another does.
func sameTexts(t chat.Template, bos, text string) bool {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return false
	}
	for _, messages := range [][]string{{"user", " a "}, {"system", "b", "user", "c"},
		{"user", "d", "assistant", "e", "user", "f"},
		{"system", "g", "user", "h", "assistant", "i", "user", "j", "assistant", "k", "user", "l"}} {
		var b strings.Builder
		data := map[string]any{"Messages": conversation(messages)}
		if err := parsed.Execute(&b, data); err != nil || b.String() != render(t, bos, true, messages...) {
			return false
		}
	}
	return true
}

// uses says how a file is used.
func uses(out, modelfile string) string {
	quoted := cli.ShellQuote(out)
	lines := [][2]string{{"restyle", cli.Command("chat") + " --tuned " + quoted + " --only tuned"},
		{"llama.cpp", "llama-cli -m " + quoted},
		{"LM Studio", "lms import " + quoted}}
	lines = append(lines, [2]string{"ollama", "ollama create NAME -f " + cli.ShellQuote(modelfile)})
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "  %-10s %s\n", l[0], l[1])
	}
	return b.String()
}
