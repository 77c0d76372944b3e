package quality

import (
	"slices"

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
		if slices.Contains(pythonTags, f.Tag()) {
			return f.Text
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

// fencesOf are the fenced blocks of a text: what voice.Prose leaves out.
func fencesOf(text string) (fences []voice.Piece) {
	for p := range voice.Pieces(text) {
		if p.Code {
			fences = append(fences, p)
		}
	}
	return fences
}
