package infer

import "strings"

// stops finds stop strings in text that arrives in parts. It holds back what could be the start of one until that is
// decided. The result does not depend on how the text was divided.
type stops struct {
	texts []string
	held  string
}

// push adds text and returns what may be shown. If found is true, a stop string is complete: the text before it is
// shown, it and all after it are not. Of several, the one that is complete first counts; of several that end at the
// same byte, the longest.
func (s *stops) push(add string) (show string, found bool) {
	text := s.held + add
	start, end := -1, len(text)+1
	for _, stop := range s.texts {
		if i := strings.Index(text, stop); i >= 0 && (i+len(stop) < end || i+len(stop) == end && i < start) {
			start, end = i, i+len(stop)
		}
	}
	if start >= 0 {
		s.held = ""
		return text[:start], true
	}
	keep := 0
	for _, stop := range s.texts {
		for n := min(len(stop), len(text)); n > keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = n
			}
		}
	}
	s.held = strings.Clone(text[len(text)-keep:])
	return text[:len(text)-keep], false
}

// rest returns the text that was held back, at the end of the answer.
func (s *stops) rest() string {
	held := s.held
	s.held = ""
	return held
}
