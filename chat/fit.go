package chat

import (
	"fmt"
	"slices"
)

// Fit drops the oldest turns of a conversation until it fits into limit tokens. A turn is a question and everything
// before the next one. The last turn and all system messages always stay. Fit returns the messages that are left and
// how many turns it dropped. It is an error if the template refuses the messages or if the last turn by itself is too
// long.
//
// measure counts the tokens of a rendering. Fit calls it after each turn that it drops, last for the messages that it
// returns, so measure may keep its result.
func (t Template) Fit(messages []Message, o Options, limit int, measure func(Rendered) int) (
	left []Message, dropped int, err error,
) {
	for left = messages; ; dropped++ {
		r, err := t.Render(left, o)
		if err != nil {
			return nil, 0, err
		}
		tokens := measure(r)
		if tokens <= limit {
			return left, dropped, nil
		}
		shorter := withoutOldest(left)
		if shorter == nil {
			return nil, 0, &TooLong{tokens, limit}
		}
		left = shorter
	}
}

// TooLong is the error for a conversation whose last turn does not fit even by itself.
type TooLong struct{ Tokens, Limit int }

// Error says what to do.
func (e *TooLong) Error() string {
	return fmt.Sprintf("prompt of %d tokens: only %d fit, even without earlier turns: shorten the question or the system "+
		"prompt, or leave less room for the answer", e.Tokens, e.Limit)
}

// Setting names the setting that leaves less room for the answer.
func (e *TooLong) Setting() string { return "max-tokens" }

// withoutOldest returns the messages without the first turn, or nil if it is the last. Assistant messages before the
// first question belong to the first turn.
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
