package chat

import "fmt"

// RefusedError says that a template does not take a conversation.
type RefusedError struct {
	Template string // the name of the family
	Message  int    // the index of the message that is refused, or -1
	Role     string // that message's role
	Reason   string // the template's own words where it has some
	Advice   string // what to do about it
}

// Error is one line: the family, the message, counted from one, the reason and the advice.
func (e *RefusedError) Error() string {
	what := "the conversation"
	if e.Message >= 0 {
		what = fmt.Sprintf("message %d (role %.40q)", e.Message+1, e.Role)
	}
	return fmt.Sprintf("chat template %s refuses %s: %s; %s", e.Template, what, e.Reason, e.Advice)
}

func (p *page) refuse(i int, reason, advice string) error {
	return &RefusedError{p.Name, i, p.messages[i].Role, reason, advice}
}

// needMessages refuses a conversation without messages, for the templates that look at the first.
func (p *page) needMessages() error {
	if len(p.messages) == 0 {
		return &RefusedError{p.Name, -1, "", "it has no messages", "give at least one question"}
	}
	return nil
}

// needRole refuses message i if it has no role.
func (p *page) needRole(i int) error {
	if p.messages[i].NoRole {
		return p.refuse(i, "it has no role", "give it the role user or assistant")
	}
	return nil
}

// needContent refuses message i if it has no content.
func (p *page) needContent(i int) error {
	if p.messages[i].NoContent {
		return p.refuse(i, "it has no content", "give it one, empty if need be")
	}
	return nil
}
