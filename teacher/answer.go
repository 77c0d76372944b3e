package teacher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/internal/python"
	"restyle/teacher/openai"
	"restyle/voice"
)

// attempt asks the teacher once, or takes its earlier answer from the journal, and checks the answer.
func (d *decider) attempt(ctx context.Context, t *task) {
	p := &t.prompt
	if t.failed != nil {
		t.refusals = append(t.refusals, *t.failed)
		p.Previous, p.Reason = t.answer.Text, t.failed.Value
		p.Longer = t.answer.Finish == "length"
	}
	p.Attempt++
	p.Seed = attemptSeed(d.Seed, p.Row.Index, p.Attempt)
	t.failed = nil
	t.verdicts = nil
	t.opinion = nil
	t.unrated = false
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
	t.asked = !found
	if _, free := d.Teacher.(Builtin); !free {
		d.spend(t.request.Body, t.answer, found)
	}
	if t.answer.Finish != refusedFinish {
		d.mu.Lock()
		d.answered = true
		d.mu.Unlock()
	}
	d.checkAnswer(t)
	if t.failed == nil && d.Judge != nil && d.Judge.MinTone > 0 {
		d.judge(ctx, t)
	}
	if t.err == nil {
		d.judged(t)
	}
}

// ask asks the teacher and records its answer or refusal in the journal.
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
		return Answer{Finish: refusedFinish, Text: refused.Reason}, nil // it is made again at no cost
	case errors.As(err, &refused) && d.hasAnswered():
		return d.enter(t, Answer{Finish: refusedFinish, Text: refused.Reason, Status: refused.Status}, key, nil)
	case errors.As(err, &refused):
		// A teacher that has not answered anything yet may refuse because of a setting that the user will correct. Such
		// a refusal is not recorded as an answer, so that a later run asks again.
		return Answer{Finish: refusedFinish, Text: refused.Reason, Status: refused.Status}, d.fail(t, err)
	case onlyThis(err):
		return a, errors.Join(err, d.fail(t, err))
	}
	return a, err
}

// onlyThis reports whether err concerns one request only: others were answered in the meantime, so only its row has
// to wait.
func onlyThis(err error) bool {
	var unavailable *openai.Unavailable
	return errors.As(err, &unavailable) && !unavailable.AllDead && unavailable.Others > 0
}

// fail records in the journal, for people to read, that a request got no answer.
func (d *decider) fail(t *task, err error) error {
	return d.Journal.Fail(FailureRecord{Row: t.prompt.Row.Index, Attempt: t.prompt.Attempt, Error: err.Error()})
}

// enter counts an answer and records it in the journal.
func (d *decider) enter(t *task, a Answer, key string, err error) (Answer, error) {
	if err != nil {
		return a, err
	}
	p := &t.prompt
	d.count(func(s *Summary) { s.Calls++ })
	return a, d.Journal.Add(AnswerRecord{Key: key, Row: p.Row.Index, Attempt: p.Attempt, Answer: a})
}

// checkAnswer makes the checks that need only the row and its answer.
func (d *decider) checkAnswer(t *task) {
	fail := func(id, reason string) {
		t.failed = &dataset.Check{ID: id, Value: reason}
	}
	a, p := t.answer, &t.prompt
	switch {
	case a.unreadable():
		fail("A1", a.Text)
		return
	case a.Finish == refusedFinish:
		fail("A1", "the teacher refuses the request: "+a.Text)
		return
	case a.Finish == openai.Refusal:
		fail("A6", fmt.Sprintf("it refuses: %q", shortened([]byte(a.Text))))
		return
	case a.Finish == openai.KeyInAnswer:
		fail("A1", openai.KeyInAnswer)
		return
	case spentOnThoughts(a):
		fail("A1", onlyThoughts)
		return
	case a.Finish == "length":
		fail("A1", cutOff)
		return
	case a.Finish != "stop":
		fail("A1", fmt.Sprintf("it ended with %q instead of at its end", a.Finish))
		return
	}
	if strings.TrimSpace(a.Text) == "" && a.Thoughts > 0 {
		fail("A1", "it has only thoughts: answer after them")
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
	text, err := parts.join(body)
	if err != nil {
		fail("A2", err.Error())
		return
	}
	c := newCandidate(p.Style, p.Question, p.Parts, text)
	prose := c.said()
	if p.Comments {
		c.words, c.prose = nil, c.prose+"\n"+remarks // the checks also apply to the remarks
	}
	checks := textChecks
	_, phrases := d.Teacher.(Builtin) // people wrote its sentences, which need not mention the question
	if phrases {
		checks = slices.DeleteFunc(slices.Clone(checks), func(k check) bool { return k.id == senseChecked })
	}
	verdicts, failed := run(checks, c)
	t.text, t.failed = text, failed
	if failed == nil {
		device := p.Assignment.Device.Name
		if len(p.Style.Devices) < minOpeners {
			device = "" // a few devices are assigned in rotation: more variety is not possible
		}
		t.said = saidIn(prose, device)
		if c.parts.restated { // what the answer itself repeats is not the teacher's doing
			t.said = t.said.without(saidIn(voice.Read(c.parts.Prose()), ""))
		}
		t.said.loose = !phrases && c.loose()
	}
	t.verdicts = append([]dataset.Check{{ID: "A1", Pass: true, Value: "stop"}}, verdicts...)
}

// addRemarks adds remarks, given as lines such as "L3: …" or "C2L3: …", to the ends of lines of code.
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

// parseRemark parses "L3: …" or "C2L3: …": the block and the line in it, both counted from 1, and the remark.
func parseRemark(line string) (block, at int, remark string, ok bool) {
	place, remark, ok := strings.Cut(line, ":")
	remark = strings.TrimSpace(remark)
	if !ok || remark == "" {
		return 0, 0, "", false
	}
	if _, err := fmt.Sscanf(place, "C%dL%d", &block, &at); err == nil {
		return block, at, remark, true
	}
	_, err := fmt.Sscanf(place, "L%d", &at)
	return 1, at, remark, err == nil
}
