package main

// templateMutants are the faults of chat templates that are run as programs.
var templateMutants = []mutant{
	{"templates/role-typed", "chat/program.go", "return jinja.Text(role, jinja.Elsewhere)", "return jinja.Own(role)", "./chat"},
	{"templates/role-never-own", "chat/program.go", "return jinja.Own(role)", "return jinja.Text(role, jinja.Elsewhere)", "./chat"},
	{"templates/content-own", "chat/program.go", "jinja.Text(m.Content, i)", "jinja.Own(m.Content[i-i:])", "./chat"},
	{"templates/any-source", "chat/program.go", "case g.Source != source:", "case false:", "./chat"},
	{"templates/no-tokens-to-try", "chat/program.go", `with.BOS, with.EOS = "<s>", "</s>"`, "", "./chat"},
	{"templates/question-left-out", "chat/program.go", "if err == nil && question == Dropped {", "if err == nil && question == Dropped && false {", "./chat"},
	{"templates/earlier-messages-change", "chat/program.go", "if !strings.HasPrefix(through.Text, prompt.Text) {", "if false {", "./chat"},
	{"templates/later-messages-change", "chat/program.go", "if !strings.HasPrefix(whole.Text, through.Text[:target.End]) {", "if false {", "./chat"},
	{"templates/typed-end", "chat/program.go", "from = max(from, through.Given[n-1].End)", "", "./chat"},
	{"templates/generation-without-end", "chat/program.go", "from = max(from, g.End)", "", "./chat"},
	{"templates/generation-miscounted", "chat/program.go", "whole.Unplaced || len(whole.Generated) != len(asked)", "whole.Unplaced", "./chat"},
	{"templates/first-answer", "chat/program.go", "if i == 0 {", "if false {", "./chat"},
	{"templates/clock", "chat/program.go", "if now.IsZero() {", "if false {", "./chat"},
	{"templates/targets-unknown", "dataset/training/example.go", "if err == nil && !e.All {", "if false {", "./dataset/training"},
	{"templates/targets-of-all", "dataset/training/example.go", `!= "assistant" || r.NoTargets != nil ||`, `!= "assistant" ||`, "./dataset/training"},
	{"templates/thoughts", "chat/jinja/json.go", `with.Set("reasoning_content", thoughts)`, "", "./chat/jinja"},
	{"templates/end-of-two", "chat/program.go", "strings.Contains(tail, t.EOS)", "strings.HasPrefix(tail, t.EOS)", "./chat"},
	{"templates/csv-lines", "dataset/csv.go", "in.spent = 0", "", "./dataset"},
	{"templates/csv-columns-twice", "dataset/csv.go", "if slices.Contains(names[:i], name) {", "if slices.Contains(names[:i], name) && false {", "./dataset"},
	{"templates/parts-of-any-type", "dataset/messages.go", "is != `\"text\"`", "is == \"\"", "./dataset"},
	{"templates/parts-unseparated", "dataset/messages.go", `strings.Join(parts, "\n")`, `strings.Join(parts, "")`, "./dataset"},
	{"templates/parquet-in-gzip", "dataset/source.go", `if strings.HasPrefix(string(first), "PAR1") {`, "if false {", "./dataset"},
}
