package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"restyle/chat"
	"restyle/infer"
	"restyle/internal/cli"
)

// A side is one of the models. Each has its own conversation, because its own answers are part of that.
type side struct {
	label  string
	engine *infer.Engine
	talk
	replaced *talk // the talk before takeBack, or nil: it comes back if no answer takes its place
}

// A talk is what a side was asked and what it answered.
type talk struct {
	messages []chat.Message   // without the system prompt
	system   string           // of the last answer
	start    int              // where the last question is in messages, or was to be before it failed
	earlier  [][]chat.Message // the conversations before this one, with their system prompts
}

// frameTime is the minimum time between two drawings of growing answers. Text is in the record before it is drawn.
const frameTime = 100 * time.Millisecond

// reply is one side's answer in progress.
type reply struct {
	*side
	generation *infer.Generation
	text       strings.Builder
	recorded   int // bytes of it that are in the record
	answer     *answer
	err        error
	done       bool
}

// ask generates every side's answer to a question, alternating token by token, and shows and records them. before has
// the messages that the question came with. If a side fails, the others continue; the error then is an *unanswered.
func (c *chatter) ask(ctx context.Context, question string, before []chat.Message) error {
	id := newID()
	models := map[string]string{}
	for _, s := range c.sides {
		models[s.label] = s.engine.Name
	}
	used := c.settings
	used.Seed += int64(c.attempt)
	turn := 1 + len(c.sides[0].messages)/2
	// From here on a Ctrl-C stops this answer: syncing the record to disk takes long enough for one.
	ctx, end := c.interrupts.answer(ctx)
	if err := c.record.add(event{Event: "ask", ID: id, Question: question, Before: before, System: c.system, Turn: turn,
		Models: models, Settings: &used}, true); err != nil {
		end()
		for _, s := range c.sides {
			s.putBack()
		}
		return err
	}
	replies := make([]*reply, len(c.sides))
	for i, s := range c.sides {
		replies[i] = c.begin(s, question)
	}
	err := c.run(ctx, id, replies)
	end()
	var failed []error
	e := &entry{id: id, question: question, models: models, answers: map[string]*answer{}}
	for _, r := range replies {
		e.answers[r.label] = r.answer
		if r.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.label, r.err))
			r.messages = r.messages[:len(r.messages)-1]
			r.putBack()
			continue
		}
		r.messages = append(r.messages, chat.Message{Role: "assistant", Content: r.answer.Text})
		r.system, r.replaced = c.system, nil
	}
	c.last = id
	if logErr := c.record.log(e); err == nil {
		err = logErr
	}
	switch {
	case failed == nil:
		return err
	case err == nil:
		return &unanswered{errors.Join(failed...)}
	}
	return errors.Join(append(failed, err)...)
}

// unanswered is the error of a question that models could not answer. It does not affect the next question.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// putBack puts what takeBack removed back.
func (s *side) putBack() {
	if s.replaced != nil {
		s.talk, s.replaced = *s.replaced, nil
	}
}

// begin starts a side's answer.
func (c *chatter) begin(s *side, question string) *reply {
	r := &reply{side: s, answer: &answer{}}
	s.start = len(s.messages)
	s.messages = append(s.messages, chat.Message{Role: "user", Content: question})
	prompt, err := s.engine.Prompt(withSystem(c.system, s.messages), c.MaxTokens)
	if err != nil {
		r.err = cli.NameFlag(err)
		return r
	}
	if r.answer.DroppedTurns = prompt.Dropped; prompt.Dropped > 0 {
		c.note("%s: the context of %d tokens is full: dropped the oldest %s", s.label, s.engine.Context,
			cli.Count(prompt.Dropped, "turn"))
		s.messages = prompt.Messages
		if c.system != "" {
			s.messages = s.messages[1:]
		}
		s.start = len(s.messages) - 1
	}
	r.generation, r.err = s.engine.Start(prompt.IDs, infer.Options{Sampling: c.sampling(c.attempt), MaxTokens: c.MaxTokens,
		Stop: c.Stop})
	return r
}

// run extends the replies in turn until all are done. Its errors come from the display or the record.
func (c *chatter) run(ctx context.Context, id string, replies []*reply) error {
	if err := c.show(id, replies); err != nil { // the headings, before the models read the question
		return c.failed(replies, err)
	}
	var drawn time.Time
	for left := len(replies); left > 0; {
		for _, r := range replies {
			if r.done {
				continue
			}
			if r.grow(ctx); !r.done {
				continue
			}
			left--
			if err := c.record.add(event{Event: "answer", ID: id, Model: r.label, Answer: r.answer}, true); err != nil {
				return c.failed(replies, err)
			}
			r.recorded = r.text.Len()
		}
		if left > 0 && time.Since(drawn) < frameTime {
			continue
		}
		drawn = time.Now()
		if err := c.show(id, replies); err != nil {
			return c.failed(replies, err)
		}
	}
	return nil
}

// failed ends all replies: the rest of them could not be recorded or shown.
func (c *chatter) failed(replies []*reply, err error) error {
	for _, r := range replies {
		if !r.done {
			r.answer.Text, r.answer.Reason, r.answer.Error = r.text.String(), "error", err.Error()
		}
	}
	return err
}

// grow generates one more token.
func (r *reply) grow(ctx context.Context) {
	a := r.answer
	if r.generation != nil {
		if r.generation.Next(ctx) {
			r.text.WriteString(r.generation.Text())
			return
		}
		res := r.generation.Result()
		r.err = r.generation.Err()
		a.Reason = string(res.Reason)
		a.Tokens = len(res.IDs)
		a.PromptTokens = res.Prompt
		a.Reused = res.Reused
		a.FirstSeconds, a.Speed = round(res.First.Seconds()), round(res.Speed())
	}
	if r.err != nil {
		a.Reason, a.Error = "error", r.err.Error()
	}
	a.Text, r.done = r.text.String(), true
}

// show records the new text, then draws it.
func (c *chatter) show(id string, replies []*reply) error {
	part := map[string]string{}
	panes := make([]pane, len(replies))
	for i, r := range replies {
		text := r.text.String()
		if text := text[r.recorded:]; text != "" {
			part[r.label] = text
			r.recorded = len(r.text.String())
		}
		panes[i] = pane{label: r.label, title: cli.Clean(r.engine.Name), text: cli.Clean(text), done: r.done}
		if r.done {
			panes[i].foot = r.answer.summary(r.engine.Context)
		}
	}
	if len(part) > 0 {
		if err := c.record.add(event{Event: "part", ID: id, Text: part}, false); err != nil {
			return err
		}
	}
	return c.display.draw(panes)
}

// summary returns the line below an answer: why it was truncated, if it was, its length and speed.
func (a *answer) summary(context int) string {
	var parts []string
	switch note := a.cut(); {
	case a.Reason == "length":
		note += " (--max-tokens)"
		parts = append(parts, note)
	case a.Reason == "error": // which is printed in full elsewhere
		parts = append(parts, fmt.Sprintf("failed after %s", cli.Count(a.Tokens, "token")))
	case a.Reason == "context":
		parts = append(parts, fmt.Sprintf("%s (--context %d)", note, context))
	case note != "":
		parts = append(parts, note)
	default:
		parts = append(parts, cli.Count(a.Tokens, "token"))
	}
	if a.FirstSeconds > 0 {
		parts = append(parts, fmt.Sprintf("first after %.2f s", a.FirstSeconds))
	}
	if a.Speed > 0 {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s", a.Speed))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// round rounds a measurement to 3 decimals.
func round(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }
