package chat

import (
	"fmt"
	"slices"
)

// Fit leaves out the oldest turns of a conversation until it fits into limit tokens. A turn is a question and all that
// follows up to the next one; the last turn always stays, and so does every system message. It returns the
// messages that are left, how many turns went, and an error if the template refuses them or the last turn
// alone is too long.
//
// Measure counts the tokens of a rendering. It is called after each turn that went; the last call is for the
// messages that are returned, so measure may keep what it found.
func (f Template) Fit(messages []Message, o Options, limit int, measure func(Rendered) int) (
	left []Message, gone int, err error,
) {
	for left = messages; ; gone++ {
		r, err := f.Render(left, o)
		if err != nil {
			return nil, 0, err
		}
		tokens := measure(r)
		if tokens <= limit {
			return left, gone, nil
		}
		shorter := withoutOldest(left)
		if shorter == nil {
			return nil, 0, fmt.Errorf("prompt of %d tokens: %d fit, even without earlier turns; shorten the question or "+
				"the system prompt, or leave less room for the answer", tokens, limit)
		}
		left = shorter
	}
}

// withoutOldest leaves out the first turn, or returns nil if that is the last one. Messages of an assistant in front of
// the first question go with it.
func withoutOldest(messages []Message) []Message {
	isQuestion := func(m Message) bool { return m.Role == "user" }
	first := slices.IndexFunc(messages, isQuestion)
	if first < 0 {
		return nil
	}
	second := slices.IndexFunc(messages[first+1:], isQuestion)
	if second < 0 {
		return nil
	}
	var left []Message
	for i, m := range messages {
		if m.Role == "system" || i > first+second {
			left = append(left, m)
		}
	}
	return left
}
