package chat

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
)

// A RefusedError is a conversation that a template does not accept.
type RefusedError struct {
	Template string // name of the template
	Message  int    // index of the message that it refuses, or -1
	Role     string // of that message
	Reason   string // in the template's own words, if it has any
	Advice   string // what to do about it

	// Rewritten reports that the answer would be known if the conversation ended with it: the template writes an
	// answer in another way once there are later messages, such as a template that leaves out earlier thoughts.
	Rewritten bool
}

// Error returns one line: the template, the message, counted from one, the reason and the advice.
func (e *RefusedError) Error() string {
	what := "the conversation"
	if e.Message >= 0 {
		what = fmt.Sprintf("message %d (role %.40q)", e.Message+1, e.Role)
	}
	return fmt.Sprintf("chat template %s refuses %s: %s; %s", e.Template, what, e.Reason, e.Advice)
}

func (p *page) refuse(i int, reason, advice string) error {
	return &RefusedError{Template: p.Name, Message: i, Role: p.messages[i].Role, Reason: reason, Advice: advice}
}

const alternate = "start with a question and join consecutive messages of one role, or use the template raw"

// advice says what to do about reasons that templates give.
var advice = map[string]string{
	"System role not supported": "leave the system prompt out or put it into the first question",

	"Conversation roles must alternate user/assistant/user/assistant/...":                                    alternate,
	"After the optional system message, conversation roles must alternate user/assistant/user/assistant/...": alternate,
	"Only user and assistant roles are supported, with the exception of an initial optional system message!": "" +
		"leave the message out or give it the role user or assistant",
	"Tool call IDs should be alphanumeric strings with length 9!": "give calls and their results such an id, or leave " +
		"them out",
}

// explain adds to the template's refusal what is wrong: the first message with which it refuses the conversation for
// the same reason, and what that message lacks.
func (p *page) explain(refused *RefusedError) error {
	refused.Advice = cmp.Or(advice[refused.Reason], refused.Advice)
	if len(p.messages) == 0 {
		refused.Reason, refused.Advice = "it has no messages", "add at least one question"
		return refused
	}
	at := sort.Search(len(p.messages), func(i int) bool {
		_, err := p.execute(p.messages[:i+1], false)
		other := (*RefusedError)(nil)
		return errors.As(err, &other) && other.Reason == refused.Reason
	})
	if at == len(p.messages) {
		return refused
	}
	m := p.messages[at]
	refused.Message, refused.Role = at, m.Role
	switch {
	case advice[refused.Reason] != "":
	case m.NoRole:
		refused.Reason, refused.Advice = "it has no role: "+refused.Reason, "set the role to user or assistant"
	case m.NoContent && m.Calls == "":
		refused.Reason = "it has no content: " + refused.Reason
		refused.Advice = "set the content, to an empty string if need be"
	}
	return refused
}
