package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"restyle/chat"
	"restyle/internal/cli"
	"restyle/internal/disk"
)

// A command is an input that starts with a slash.
type command struct {
	name, args, help string
	do               func(c *chatter, ctx context.Context, args string) error
}

// commands returns all commands, in the order of /help.
func commands() []command {
	return []command{
		{"system", "TEXT", "set the system prompt; \"\" removes it, no text shows it", (*chatter).setSystem},
		{"set", "NAME VALUE", "set temperature, top-p, top-k, min-p, repetition-penalty, max-tokens, seed or stop (no " +
			"VALUE removes the stop texts); no name shows all", (*chatter).set},
		{"seed", "N", "the same as /set seed N", func(c *chatter, ctx context.Context, args string) error {
			return c.set(ctx,
				"seed "+args)
		}},
		{"examples", "", "show three questions that the embedded model knows; typing 1, 2 or 3 then asks one",
			(*chatter).showExamples},
		{"conversation", "keep|new", "keep one conversation, or start a new one for each question; no word shows which",
			(*chatter).setConversation},
		{"regen", "", "answer the last question again with the next seed", (*chatter).regenerate},
		{"edit", "TEXT", "replace the last question; no text brings it back for editing", (*chatter).edit},
		{"clear", "", "start a new conversation", (*chatter).clear},
		{"save", "FILE", "write the conversation to a new JSON file", (*chatter).save},
		{"vote", "base|tuned|tie|neither NOTE", "log which answer was better", (*chatter).vote},
		{"help", "", "show this list", (*chatter).help},
		{"bye", "", "leave; so do quit and exit", nil},
	}
}

// command runs the command in input.
func (c *chatter) command(ctx context.Context, input string) (leave bool, err error) {
	name, args, _ := strings.Cut(input[1:], " ")
	if name == "quit" || name == "exit" {
		name = "bye"
	}
	for _, cmd := range commands() {
		if cmd.name != name {
			continue
		}
		if cmd.do == nil {
			return true, nil
		}
		return false, cmd.do(c, ctx, strings.TrimSpace(args))
	}
	var names []string
	for _, cmd := range commands() {
		names = append(names, cmd.name)
	}
	hint := "see /help"
	if meant := cli.Nearest(name, names); meant != "" {
		hint = "perhaps /" + meant
	}
	return false, fmt.Errorf("/%s: unknown command: %s; if it is a question, start it with two slashes", name, hint)
}

func (c *chatter) help(context.Context, string) error {
	width := cmp.Or(c.noteWidth(), 80)
	for _, cmd := range commands() {
		head, column := fmt.Sprintf("  %-36s ", strings.TrimRight("/"+cmd.name+" "+cmd.args, " ")), 39
		if width < 80 { // the description goes below
			head, column = strings.TrimRight(head, " ")+"\n      ", 6
		}
		c.note("%s%s", head, strings.Join(cli.Wrap(cmd.help, max(1, width-column)), "\n"+strings.Repeat(" ", column)))
	}
	c.note("")
	for _, keys := range []string{
		`""" starts and ends a question of several lines; pasted text may as well.`,
		"Ctrl-C stops the answers and keeps them; a second one leaves. Ctrl-D leaves.",
	} {
		c.note("  %s", strings.Join(cli.Wrap(keys, max(1, width-2)), "\n  "))
	}
	return nil
}

func (c *chatter) setSystem(_ context.Context, text string) error {
	switch text {
	case "":
	case `""`:
		c.system = ""
	default:
		c.system = strings.Trim(text, `"`)
	}
	if c.system == "" {
		c.note("no system prompt")
	} else {
		c.note("system: %s", c.system)
	}
	return nil
}

func (c *chatter) set(_ context.Context, args string) error {
	name, value, _ := strings.Cut(args, " ")
	value = strings.TrimSpace(value)
	name = strings.ReplaceAll(name, "_", "-")
	s := c.settings
	number := func(to *float64) (err error) { *to, err = strconv.ParseFloat(value, 64); return err }
	whole := func(to *int) (err error) { *to, err = strconv.Atoi(value); return err }
	setters := map[string]func() error{
		"temperature":        func() error { return number(&s.Temperature) },
		"top-p":              func() error { return number(&s.TopP) },
		"top-k":              func() error { return whole(&s.TopK) },
		"min-p":              func() error { return number(&s.MinP) },
		"repetition-penalty": func() error { return number(&s.RepetitionPenalty) },
		"max-tokens":         func() error { return whole(&s.MaxTokens) },
		"seed":               func() (err error) { s.Seed, err = strconv.ParseInt(value, 10, 64); return err },
		"stop": func() error {
			if s.Stop = nil; value != "" {
				s.Stop = stops{value}
			}
			return nil
		},
	}
	setter, ok := setters[name]
	switch {
	case name == "" || ok && value == "" && name != "stop":
		c.note("%s", c.settings)
		return nil
	case !ok:
		if meant := cli.Nearest(name, slices.Sorted(maps.Keys(setters))); meant != "" {
			return fmt.Errorf("setting %q: unknown: did you mean %s?", name, meant)
		}
		return fmt.Errorf("setting %q: unknown: see /help", name)
	}
	if err := setter(); err != nil {
		kind := "number"
		if name == "top-k" || name == "max-tokens" || name == "seed" {
			kind = "whole number"
		}
		return fmt.Errorf("%s %q: must be a %s", name, value, kind)
	}
	if name == "temperature" && s.Temperature == 0 && c.greedy > 0 && !c.options.set.Given("repetition-penalty") {
		s.RepetitionPenalty = c.greedy // as if chat had been started with it
	}
	if err := s.check(); err != nil {
		return err
	}
	c.settings = s
	c.note("%s", c.settings)
	return nil
}

// String lists the settings on one line.
func (s settings) String() string {
	text := fmt.Sprintf("temperature %g, top-p %g, top-k %d, min-p %g, repetition-penalty %g, max-tokens %d, seed %d",
		s.Temperature, s.TopP, s.TopK, s.MinP, s.RepetitionPenalty, s.MaxTokens, s.Seed)
	if len(s.Stop) > 0 {
		text += fmt.Sprintf(", stop %q", []string(s.Stop))
	}
	return text
}

var errNothingAsked = errors.New("there is no question yet")

func (c *chatter) regenerate(ctx context.Context, _ string) error {
	if c.asked == "" {
		return errNothingAsked
	}
	c.takeBack()
	c.attempt++
	c.note("seed %d", c.Seed+int64(c.attempt))
	return c.ask(ctx, c.asked, nil)
}

func (c *chatter) edit(ctx context.Context, text string) error {
	switch {
	case c.asked == "":
		return errNothingAsked
	case text == "" && c.prefill == nil:
		return errors.New("/edit: add the new question")
	case text == "":
		c.editing = true
		c.prefill(c.asked)
		return nil
	}
	c.takeBack()
	return c.question(ctx, text)
}

// takeBack removes the last question and its answers from the conversations, for one that replaces it.
func (c *chatter) takeBack() {
	for _, s := range c.sides {
		was := s.talk
		s.replaced, s.messages = &was, slices.Clone(s.messages[:s.start])
	}
}

func (c *chatter) clear(context.Context, string) error {
	for _, s := range c.sides {
		s.talk = talk{}
	}
	c.asked = ""
	c.note("new conversation")
	return nil
}

// save writes the conversation of each model in the form that other programs read, or all of them since /clear if there
// are several.
func (c *chatter) save(_ context.Context, path string) (err error) {
	if path == "" {
		return errors.New("/save: add the name of a file")
	}
	type conversation struct {
		Messages []chat.Message `json:"messages"`
	}
	type conversations struct {
		Model string `json:"model"`
		*conversation
		All []conversation `json:"conversations,omitempty"`
	}
	saved := map[string]any{"settings": c.settings}
	turns := 0
	for _, s := range c.sides {
		all := conversations{Model: s.engine.Name}
		turns = 0
		conversations := s.earlier
		if len(s.messages) > 0 || conversations == nil {
			conversations = append(slices.Clone(conversations), withSystem(s.system, s.messages))
		}
		for _, messages := range conversations {
			all.All = append(all.All, conversation{messages})
			turns += len(messages) / 2
		}
		if len(all.All) == 1 {
			all.conversation, all.All = &all.All[0], nil
		}
		saved[s.label] = all
	}
	data, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return err
	}
	f, err := disk.Open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: choose another name", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		c.note("%s: %s", path, cli.Count(turns, "turn"))
	}
	return err
}

func (c *chatter) vote(_ context.Context, args string) error {
	choice, note, _ := strings.Cut(args, " ")
	switch {
	case c.last == "":
		return errNothingAsked
	case !slices.Contains([]string{baseLabel, tunedLabel, "tie", "neither"}, choice):
		return fmt.Errorf("vote %q: must be base, tuned, tie or neither", choice)
	case c.record == nil:
		return errors.New("there is no log for the vote: start chat with --log FILE")
	}
	if err := c.record.add(event{Event: "vote", ID: c.last, Vote: choice, Note: strings.TrimSpace(note)},
		true); err != nil {
		return err
	}
	c.note("logged: %s", choice)
	return nil
}
