package quality

import (
	"slices"

	"restyle/internal/python"
	"restyle/voice"
)

// Code returns the Python of an answer: the content of the first fence whose tag is python, py, python3 or py3, or that
// has no tag. A fence without an end extends to the end of the answer. An answer without fences is code as a whole,
// because a model that was trained on bare code answers that way. If all fences have other tags, the answer has no
// code.
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

// Prose returns the part of an answer that has its tone and opener: [voice.Prose], or "" for bare code.
func Prose(answer string) string {
	if len(fencesOf(answer)) == 0 && python.Check(answer) == nil {
		return ""
	}
	return voice.Prose(answer)
}

// fencesOf returns the fenced blocks of a text, which voice.Prose leaves out.
func fencesOf(text string) (fences []voice.Piece) {
	for p := range voice.Pieces(text) {
		if p.Code {
			fences = append(fences, p)
		}
	}
	return fences
}
