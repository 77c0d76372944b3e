package quality

import (
	"slices"
	"strings"

	"restyle/internal/python"
	"restyle/voice"
)

// Code returns the Python of an answer: what stands in the first fence that is Python's, which is one tagged python, py,
// python3 or py3, or not at all. A fence that is never closed runs to the end of the answer. An answer without any fence is
// code as a whole, which is how a model answers that was taught bare code; one that has fences, and none of them Python's,
// has no code.
func Code(answer string) string {
	fences := fencesOf(answer)
	if len(fences) == 0 {
		return answer
	}
	for _, f := range fences {
		if slices.Contains(pythonTags, f.tag) {
			return f.code
		}
	}
	return ""
}

var pythonTags = []string{"", "python", "py", "python3", "py3"}

// Prose returns the words of an answer, in which tone and openers are looked for: voice.Prose, and nothing of an answer
// that is bare code.
func Prose(answer string) string {
	if len(fencesOf(answer)) == 0 && python.Check(answer) == nil {
		return ""
	}
	return voice.Prose(answer)
}

type fence struct{ tag, code string }

// fencesOf are the fenced blocks of a text: three or more backticks or tildes, indented by at most three spaces, up to a line of
// as many or more of the same (CommonMark 0.31, section 4.5). They are what voice.Prose leaves out.
func fencesOf(text string) (fences []fence) {
	open, start, end := "", 0, 0
	for line := range strings.Lines(text) {
		end += len(line)
		run, info := fenceRun(line)
		switch {
		case open == "" && run != "":
			open, start = run, end
			tag, _, _ := strings.Cut(info, " ")
			fences = append(fences, fence{tag: strings.ToLower(tag)})
		case open != "" && strings.HasPrefix(run, open) && info == "":
			open = ""
		case open != "":
			fences[len(fences)-1].code = text[start:end]
		}
	}
	return fences
}

// fenceRun returns the run of fence characters that a line begins with, and what follows it; "" where there is none.
func fenceRun(line string) (run, info string) {
	body := strings.TrimLeft(line, " ")
	if len(line)-len(body) > 3 || !strings.HasPrefix(body, "```") && !strings.HasPrefix(body, "~~~") {
		return "", ""
	}
	info = strings.TrimLeft(body, body[:1])
	if body[0] == '`' && strings.Contains(info, "`") {
		return "", "" // an inline span that happens to start the line
	}
	return body[:len(body)-len(info)], strings.TrimSpace(info)
}
