package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"restyle/data"
	"restyle/dataset"
	"restyle/infer"
)

// madeOfStarter reports whether a model is the embedded one, or was made from it, perhaps in several steps, by train or
// export. It reads only directories of this machine.
func madeOfStarter(ctx context.Context, name string) bool {
	const maxSteps = 16 // names could form a circle
	for range maxSteps {
		if name == data.StarterName {
			return true
		}
		if _, err := os.Stat(name); err != nil { // on the hub
			return false
		}
		base, err := infer.BaseOf(ctx, nil, runOf(name))
		if err != nil || base == "" {
			return false
		}
		name = base
	}
	return false
}

// runOf returns the directory of the training run that a checkpoint is of, or dir if it is no checkpoint.
func runOf(dir string) string {
	parent := filepath.Dir(filepath.Clean(dir))
	if _, err := os.Stat(dir); err != nil || filepath.Base(parent) != "checkpoints" {
		return dir
	}
	return filepath.Dir(parent)
}

// scope says what the embedded model is, or the models that were made from it.
func scope(refs []modelRef) string {
	if slices.ContainsFunc(refs, func(m modelRef) bool { return m.name == data.StarterName }) {
		return data.StarterScope
	}
	return "made from " + data.StarterScope
}

// greeting returns the line before the first question at a terminal.
func (c *chatter) greeting() string {
	if c.embedded {
		return "type a question, or /examples for three that this model knows, or /help for the commands"
	}
	return "type a question, or /help for the commands"
}

// sayConversations says so if questions share no conversation.
func (c *chatter) sayConversations() {
	if c.fresh {
		c.note("each question starts a new conversation: /conversation keep changes that")
	}
}

// setConversation decides whether each question starts a new conversation.
func (c *chatter) setConversation(_ context.Context, how string) error {
	switch how {
	case "":
	case "keep", "new":
		c.fresh = how == "new"
	default:
		return fmt.Errorf("/conversation %q: must be keep or new", how)
	}
	if c.fresh {
		c.note("each question starts a new conversation")
	} else {
		c.note("the conversation goes on with each question")
	}
	return nil
}

// showExamples shows three questions that the embedded model knows, each time others. The seed decides which.
func (c *chatter) showExamples(context.Context, string) error {
	if !c.embedded {
		return errors.New("/examples: there are none for this model: only for the embedded one and models made from it")
	}
	all, err := data.Examples()
	if err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(uint64(c.Seed), 0)).Perm(len(all))
	c.examples = nil
	for range 3 {
		q := all[order[c.shown%len(all)]]
		c.shown++
		c.examples = append(c.examples, dataset.Question(q.Instruction, q.Input))
		c.note("  %d  %s", len(c.examples), c.examples[len(c.examples)-1])
	}
	c.note("type 1, 2 or 3 to ask one of them, or /examples for others")
	return nil
}

// example returns the example that input is the number of, or "".
func (c *chatter) example(input string) string {
	if n, err := strconv.Atoi(input); err == nil && n >= 1 && n <= len(c.examples) {
		return c.examples[n-1]
	}
	return ""
}

// askExample asks an example.
func (c *chatter) askExample(ctx context.Context, question string) error {
	c.note("%s", question)
	if c.recall != nil {
		c.recall(question)
	}
	return c.question(ctx, question)
}
