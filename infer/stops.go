package infer

import "strings"

// stops finds stop strings in text that comes in pieces. What could be the beginning of one is held back until it is
// clear; the outcome does not depend on how the text was cut into pieces.
type stops struct {
	texts []string
	held  string
}

// push takes a piece of text and gives back what may be shown. found says that a stop string is complete: what stands in
// front of it is shown, itself and all behind it is not. The one that is complete first counts, of several that end at
// the same place the longest.
func (s *stops) push(piece string) (show string, found bool) {
	text := s.held + piece
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
		for n := min(len(stop)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = n
			}
		}
	}
	s.held = strings.Clone(text[len(text)-keep:])
	return text[:len(text)-keep], false
}

// rest is what was held back, when no more text comes.
func (s *stops) rest() string {
	held := s.held
	s.held = ""
	return held
}
