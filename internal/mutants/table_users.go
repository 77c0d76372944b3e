package main

// usersMutants are the faults of what a user meets: progress on a terminal, templates, defaults, signals, what is held out.
var usersMutants = []mutant{
	{"users/status-last-column", "internal/cli/status.go", "n := width - 1;", "n := width;", "./internal/cli"},
	{"users/status-wraps", "internal/cli/status.go", `"\x1b[?7l%s\x1b[J\x1b[?7h\r"`, `"%s\x1b[J\r"`, "./internal/cli"},
	{"users/status-cursor-at-the-end", "internal/cli/status.go", `"\x1b[?7l%s\x1b[J\x1b[?7h\r"`, `"\r\x1b[?7l%s\x1b[J\x1b[?7h"`, "./internal/cli"},
	{"users/status-line-only", "internal/cli/status.go", `"\x1b[?7l%s\x1b[J\x1b[?7h\r"`, `"\x1b[?7l%s\x1b[K\x1b[?7h\r"`, "./internal/cli"},
	{"users/status-dirty", "internal/cli/status.go", "expandTabs(Clean(text))", "expandTabs(text)", "./internal/cli"},
	{"users/status-stays", "internal/cli/status.go", "	l.clear()\n	return l.W.Write(p)", "	return l.W.Write(p)", "./internal/cli"},
	{"users/status-bytes", "internal/cli/status.go", "Columns(text) > n", "len(text) > n", "./internal/cli"},
	{"users/status-draws-in-a-pipe", "internal/cli/status.go", "return l.Width != nil", "return true", "./internal/cli"},
	{"users/columns-of-wide", "internal/cli/text.go", "		return 2\n", "		return 1\n", "./internal/cli"},
	{"users/fit-one-more", "internal/cli/text.go", "taken > width && i > 0", "taken > width+1 && i > 0", "./internal/cli"},
	{"users/template-not-applied", "cmd/train/train.go", "t.newTemplate, err = t.language.Apply(t.origin)", "t.newTemplate, err = false, nil", "./cmd/train -run Template"},
	{"users/template-always", "infer/language.go", "err == nil && own.Name == l.Family.Name", "err == nil && own.Name == \"\"", "./infer -run Apply"},
	{"users/template-end-lost", "hf/template.go", "append([]int32{t.End}, c.Generation.EOS...)", "c.Generation.EOS", "./hf -run SetTemplate"},
	{"users/template-end-alone", "hf/template.go", "append([]int32{t.End}, c.Generation.EOS...)", "[]int32{t.End}", "./hf -run SetTemplate"},
	{"users/template-bos-lost", "hf/template.go", `c.Tokenizer.BOS == "" && t.BOS != ""`, "false", "./hf ./infer -run SetTemplate|Apply"},
	{"users/template-bos-replaced", "hf/template.go", `c.Tokenizer.BOS == "" && t.BOS != ""`, `t.BOS != ""`, "./hf -run SetTemplate"},
	{"users/template-first-of-two-keys", "hf/edit.go", "changed[name] != nil", "left[name] != nil", "./hf -run SetTemplate"},
	{"users/template-unfit-taken", "infer/language.go", `	if missing == "" {`, `	if missing != "?" {`, "./infer -run Template"},
	{"users/template-bos-unchecked", "infer/language.go", "err == nil && r.BOS {", "err == nil && r.BOS && false {", "./infer -run Template"},
	{"users/template-raw-bos", "infer/language.go", "first.Ends[0] == 0", "false", "./infer -run RawBOS"},
	{"users/template-llama3-untrimmed", "chat/templates/llama3.jinja", "message.content | trim", "message.content", "./chat -run Jinja"},
}
