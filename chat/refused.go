package chat

import "fmt"

// A RefusedError is a conversation that a template does not accept.
type RefusedError struct {
	Template string // name of the template
	Message  int    // index of the message that it refuses, or -1
	Role     string // of that message
	Reason   string // in the template's own words, if it has any
	Advice   string // what to do about it

	// Rewritten tells that the answer would be known if the conversation ended with it: the template writes an answer in
	// another way once there are later messages, as one does that leaves out earlier thoughts.
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

// needMessages refuses a conversation without messages, for the templates that look at the first.
func (p *page) needMessages() error {
	if len(p.messages) == 0 {
		return &RefusedError{Template: p.Name, Message: -1, Reason: "it has no messages", Advice: "add at least one question"}
	}
	return nil
}

// needRole refuses message i if it has no role.
func (p *page) needRole(i int) error {
	if p.messages[i].NoRole {
		return p.refuse(i, "it has no role", "set the role to user or assistant")
	}
	return nil
}

// needContent refuses message i if it has no content.
func (p *page) needContent(i int) error {
	if p.messages[i].NoContent {
		return p.refuse(i, "it has no content", "set the content, to an empty string if need be")
	}
	return nil
}
