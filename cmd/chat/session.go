package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A lineReader reads the input line by line. It returns io.EOF at the end, and errInterrupt for a Ctrl-C.
type lineReader interface {
	readLine(ctx context.Context, prompt string) (string, error)
}

var errInterrupt = errors.New("interrupted")

// The prompts of a session.
const (
	ask  = ">>> "
	more = "... "
)

// session reads questions and commands until the user leaves or the input ends. If it is not interactive, it continues
// after an error and returns the first at the end.
func (c *chatter) session(ctx context.Context, in lineReader) (failed error) {
	interrupted := false // a second Ctrl-C leaves
	for {
		line, err := c.readInput(ctx, in)
		switch {
		case errors.Is(err, errInterrupt) && !interrupted:
			interrupted, c.editing = true, false
			c.note("press Ctrl-C again to leave, or type /bye")
			continue
		case errors.Is(err, errInterrupt), errors.Is(err, io.EOF):
			return failed
		case err != nil:
			return err
		}
		interrupted = false
		leave, err := c.take(ctx, line)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.note("chat: %v", err)
			if failed == nil && !c.interactive {
				failed = &printed{err}
			}
		}
		if leave {
			return failed
		}
		interrupted = c.interrupts.wasStopped()
	}
}

// printed is an error that has been printed already.
type printed struct{ error }

func (e *printed) Unwrap() error { return e.error }

// quotes surround a question of several lines.
const quotes = `"""`

// readInput reads a line, or several between triple quotes.
func (c *chatter) readInput(ctx context.Context, in lineReader) (string, error) {
	line, err := in.readLine(ctx, ask)
	rest, quoted := strings.CutPrefix(strings.TrimSpace(line), quotes)
	if err != nil || !quoted {
		return strings.TrimSpace(line), err
	}
	for {
		if text, done := strings.CutSuffix(strings.TrimRight(rest, " \t"), quotes); done {
			return strings.Trim(text, "\n"), nil
		}
		if line, err = in.readLine(ctx, more); err != nil {
			return strings.Trim(rest, "\n"), endsQuote(err)
		}
		rest += "\n" + line
	}
}

// endsQuote also ends a quotation at the end of the input.
func endsQuote(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take handles one input: a command, or a question. Two slashes at the start are a question that starts with one.
func (c *chatter) take(ctx context.Context, input string) (leave bool, err error) {
	if !utf8.ValidString(input) {
		return false, fmt.Errorf("%.40q is not UTF-8: convert the input to UTF-8", input)
	}
	edited := c.editing
	c.editing = false
	if edited && input != "" {
		c.takeBack()
		return false, c.question(ctx, input)
	}
	switch {
	case input == "":
		return false, nil
	case input == "quit" || input == "exit":
		return true, nil
	case c.example(input) != "":
		return false, c.askExample(ctx, c.example(input))
	case strings.HasPrefix(input, "//"):
		return false, c.question(ctx, input[1:])
	case strings.HasPrefix(input, "/"):
		return c.command(ctx, input)
	}
	return false, c.question(ctx, input)
}

// question asks a new question.
func (c *chatter) question(ctx context.Context, text string) error {
	return c.pose(ctx, prompt{question: text})
}

// pose asks a question that may have a conversation before it and a system prompt of its own.
func (c *chatter) pose(ctx context.Context, p prompt) error {
	if c.fresh || p.before != nil {
		c.startOver()
	}
	for _, s := range c.sides {
		s.messages = append(s.messages, p.before...)
	}
	if p.system != nil {
		defer func(before string) { c.system = before }(c.system)
		c.system = *p.system
	}
	c.asked, c.attempt = p.question, 0
	return c.ask(ctx, p.question, p.before)
}

// startOver starts a new conversation, and keeps the one so far for /save.
func (c *chatter) startOver() {
	for _, s := range c.sides {
		if len(s.messages) > 0 {
			s.earlier = append(s.earlier, withSystem(s.system, s.messages))
		}
		s.messages, s.start = nil, 0
	}
}
