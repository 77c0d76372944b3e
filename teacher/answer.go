package teacher

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/teacher/openai"
)

// attempt asks the teacher once, or finds in the journal what it answered when it was asked.
func (d *decider) attempt(ctx context.Context, t *task) {
	p := &t.prompt
	if t.failed != nil {
		t.refusals = append(t.refusals, *t.failed)
		p.Previous, p.Reason = t.answer.Text, t.failed.Value
		p.Longer = t.answer.Finish == "length"
	}
	p.Attempt++
	p.Seed = attemptSeed(d.Seed, p.Row.Index, p.Attempt)
	t.failed, t.verdicts = nil, nil
	t.request = d.Teacher.Request(p)
	if t.err = context.Cause(ctx); t.err != nil {
		return
	}
	var found bool
	if t.answer, found = d.Journal.Find(t.request.Keys); found {
		d.count(func(s *Summary) { s.Replayed++ })
	} else if t.answer, t.err = d.ask(ctx, t); t.err != nil {
		return
	}
	if t.answer.Finish != refusedFinish {
		d.mu.Lock()
		d.answered = true
		d.mu.Unlock()
	}
	d.checkAnswer(t)
}

func (d *decider) ask(ctx context.Context, t *task) (Answer, error) {
	p := &t.prompt
	a, key, err := d.Teacher.Ask(ctx, p, t.request)
	if err == nil || ctx.Err() != nil {
		return d.enter(t, a, key, err)
	}
	var refused *Refused
	switch {
	case errors.Is(err, ErrPending):
		t.key = key
		return a, err
	case errors.As(err, &refused) && refused.Status == 0:
		return Answer{Finish: refusedFinish, Text: refused.Reason}, nil // it is found again for nothing
	case errors.As(err, &refused) && d.begun():
		return d.enter(t, Answer{Finish: refusedFinish, Text: refused.Reason, Status: refused.Status}, key, nil)
	case errors.As(err, &refused):
		// A teacher that has answered nothing yet may refuse for a reason that will be mended, a wrong parameter, say.
		// Such a refusal is not kept as an answer, so that the run can be tried again.
		return Answer{Finish: refusedFinish, Text: refused.Reason, Status: refused.Status}, d.fail(t, err)
	case onlyThis(err):
		return a, errors.Join(err, d.fail(t, err))
	}
	return a, err
}

// onlyThis tells whether a request found no answer while others did: the teacher is there, and its row alone has to wait.
func onlyThis(err error) bool {
	var unavailable *openai.Unavailable
	return errors.As(err, &unavailable) && !unavailable.AllDead && unavailable.Others > 0
}

// fail puts a request that brought no answer into the journal, for people to read.
func (d *decider) fail(t *task, err error) error {
	return d.Journal.Fail(FailureRecord{Row: t.prompt.Row.Index, Attempt: t.prompt.Attempt, Error: err.Error()})
}

// enter counts an answer and puts it into the journal.
func (d *decider) enter(t *task, a Answer, key string, err error) (Answer, error) {
	if err != nil {
		return a, err
	}
	p := &t.prompt
	d.count(func(s *Summary) {
		s.Calls++
		s.In += a.PromptTokens
		s.Out += a.CompletionTokens
	})
	return a, d.Journal.Add(AnswerRecord{Key: key, Row: p.Row.Index, Attempt: p.Attempt, Answer: a})
}

// checkAnswer makes the checks that need nothing but the row and its answer.
func (d *decider) checkAnswer(t *task) {
	fail := func(id, reason string) {
		t.failed = &dataset.Check{ID: id, Value: reason}
	}
	a, p := t.answer, &t.prompt
	switch {
	case a.Finish == refusedFinish:
		fail("A1", "the teacher refuses the request: "+a.Text)
		return
	case a.Finish == openai.KeyInAnswer:
		fail("A1", openai.KeyInAnswer)
		return
	case a.Finish == "length":
		fail("A1", "it was cut off at the limit of its length: write a shorter one")
		return
	case a.Finish != "stop":
		fail("A1", fmt.Sprintf("it ended with %q instead of at its end", a.Finish))
		return
	}
	body, remarks, err := unwrap(a.Text)
	if err != nil {
		fail("A1", err.Error())
		return
	}
	if body == "" {
		fail("A1", "it is empty")
		return
	}
	parts := p.Parts
	if p.Comments && remarks != "" {
		if parts.Blocks, err = addRemarks(parts.Blocks, remarks); err != nil {
			fail("A2", err.Error())
			return
		}
	}
	text, err := parts.Join(body)
	if err != nil {
		fail("A2", err.Error())
		return
	}
	c := newCandidate(p.Style, p.Question, p.Parts, text)
	prose := c.said()
	if p.Comments {
		c.words, c.prose = nil, c.prose+"\n"+remarks // whatever is said beside the code is held to the same rules
	}
	verdicts, failed := run(textChecks, c)
	t.text, t.failed = text, failed
	if failed == nil {
		device := p.Assignment.Device.Name
		if len(p.Style.Devices) < minOpeners {
			device = "" // a few devices are assigned in rotation: more variety is not possible
		}
		t.said = saidIn(prose, device)
	}
	t.verdicts = append([]dataset.Check{{ID: "A1", Pass: true, Value: "stop"}}, verdicts...)
}

// addRemarks puts remarks, lines such as "L3: …" or "C2L3: …", at the ends of lines of code.
func addRemarks(blocks []string, remarks string) ([]string, error) {
	byBlock := make([]map[int]string, len(blocks))
	for _, line := range strings.Split(remarks, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		block, at, remark, ok := parseRemark(line)
		if !ok || block < 1 || block > len(blocks) {
			return nil, fmt.Errorf("the comment %q is not of the form L3: remark", line)
		}
		if byBlock[block-1] == nil {
			byBlock[block-1] = map[int]string{}
		}
		byBlock[block-1][at] = remark
	}
	out := make([]string, len(blocks))
	for i, b := range blocks {
		out[i] = b
		if len(byBlock[i]) > 0 {
			var err error
			if out[i], err = python.AddComments(b, byBlock[i]); err != nil {
				return nil, fmt.Errorf("a comment does not fit: %w", err)
			}
		}
	}
	return out, nil
}

func parseRemark(line string) (block, at int, remark string, ok bool) {
	place, remark, ok := strings.Cut(line, ":")
	remark = strings.TrimSpace(remark)
	if !ok || remark == "" {
		return 0, 0, "", false
	}
	block = 1
	if n, err := fmt.Sscanf(place, "C%dL%d", &block, &at); err == nil && n == 2 {
		return block, at, remark, true
	}
	block = 1
	n, err := fmt.Sscanf(place, "L%d", &at)
	return block, at, remark, err == nil && n == 1
}
