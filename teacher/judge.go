package teacher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"restyle/dataset"
	"restyle/teacher/openai"
)

// Judge asks a second model to rate rows. Its opinion goes into the certificate. By default it decides nothing: style
// sways language models more than anything else, and style is what changed.
type Judge struct {
	Remote

	// MinTone is the lowest tone, of 1 to 5, that an answer may have. An answer that the judge rates lower, or gives
	// no opinion of, fails check A13. 0 refuses no answer, and the judge rates only accepted rows.
	MinTone int

	answered atomic.Bool // it has answered a request other than by a refusal
}

// toneJudged is the check that an answer fails if the judge rates it too low.
const toneJudged = "A13"

// noOpinion is the error for an answer of the judge that is not an opinion: asking again would not help.
type noOpinion struct{ error }

//nolint:lll // a prompt
const judgePrompt = `You compare two answers to the same programming question. The code in both is the same; only the words around it differ. Judge the words of the second answer. Reply with one JSON object and nothing else:
{"tone": N, "professional": B, "technically_wrong": [Q, ...]}
N from 1 to 5: how strongly the words have this voice: %s.
B is true if a colleague could say it at work without being sent to the human resources department, else false.
Each Q quotes, word for word, a statement of the second answer that is technically wrong; [] if there is none.`

// judgeProsePrompt is judgePrompt for answers without code.
var judgeProsePrompt = strings.NewReplacer(
	"programming question. The code in both is the same; only the words around it differ. Judge the words of the second",
	"question. The second has to say what the first says, in other words. Judge the second",
	"that is technically wrong", "that is wrong or that the first contradicts").Replace(judgePrompt)

// Opinion returns the judge's opinion of a rewrite. If the journal does not have the judge's answer, Opinion asks for
// it and records it. spent is called with the request and the judge's answer. Opinion returns an error if there is no
// opinion.
func (g *Judge) Opinion(
	ctx context.Context, j *Journal, p *Prompt, text string, spent func(request []byte, a Answer, replayed bool),
) (opinion *dataset.Judge, err error) {
	compare := judgePrompt
	if p.Parts.restated {
		compare = judgeProsePrompt
	}
	r := g.render(openai.Request{
		Model: g.Model, MaxTokens: g.MaxTokens, Seed: 1, Extra: g.Extra, // temperature 0
		Messages: g.fold([]openai.Message{
			{Role: "system", Content: fmt.Sprintf(compare, p.Style.About)},
			{Role: "user", Content: fmt.Sprintf("<question>\n%s\n</question>\n<first>\n%s\n</first>\n<second>\n%s\n</second>",
				p.Question, p.Row.Output, text)},
		}),
	})
	a, found := j.Find(r.Keys)
	if !found {
		var key string
		a, key, err = g.Ask(ctx, p, r)
		var refused *Refused
		if errors.As(err, &refused) && g.MinTone > 0 && g.answered.Load() {
			// The refusal decides about a row, so it is recorded. Before the first answer a setting may be wrong, as
			// with a teacher.
			a, err = Answer{Finish: refusedFinish, Text: refused.Reason, Status: refused.Status}, nil
		}
		if err != nil {
			return nil, err
		}
		if err := j.Add(AnswerRecord{Key: key, Row: p.Row.Index, Answer: a}); err != nil {
			return nil, err
		}
	}
	spent(r.Body, a, found)
	if a.Finish == refusedFinish {
		return nil, noOpinion{fmt.Errorf("the judge refuses the request: %s", a.Text)}
	}
	g.answered.Store(true)
	if spentOnThoughts(a) {
		return nil, noOpinion{fmt.Errorf("the judge spent all of its %d tokens on thoughts: choose one that thinks less",
			g.MaxTokens)}
	}
	if opinion, err = parseOpinion(a.Text); err != nil {
		return nil, noOpinion{err}
	}
	opinion.Model = g.Model
	return opinion, nil
}

// parseOpinion parses the first JSON object in a judge's answer; models like to put words and fences around it.
func parseOpinion(text string) (*dataset.Judge, error) {
	text = afterThoughts(text, "{")
	start := strings.IndexByte(text, '{')
	if start < 0 {
		return nil, fmt.Errorf("the judge's answer: no JSON object")
	}
	var o dataset.Judge
	if err := json.NewDecoder(strings.NewReader(text[start:])).Decode(&o); err != nil {
		return nil, fmt.Errorf("the judge's answer: %w", err)
	}
	if o.Tone < 1 || o.Tone > 5 {
		return nil, fmt.Errorf("the judge's answer: tone %d: must be 1 to 5", o.Tone)
	}
	if o.Wrong == nil {
		o.Wrong = []string{}
	}
	return &o, nil
}

// judge asks the judge about the task's answer, which passed all other checks of attempt, and refuses it if its tone
// is rated too low. An answer of the judge that is not an opinion also refuses it, so that no row in the dataset is
// unrated.
func (d *decider) judge(ctx context.Context, t *task) {
	opinion, err := d.opinion(ctx, &t.prompt, t.text)
	var none noOpinion
	switch {
	case errors.As(err, &none):
		d.noOpinion(err)
		t.failed = &dataset.Check{ID: toneJudged, Value: "the judge gives no opinion of it"} // the teacher reads this
	case ctx.Err() != nil:
		t.err, t.unrated = context.Cause(ctx), true
	case err != nil:
		t.err, t.unrated = fmt.Errorf("judge: %w", err), true
	case opinion.Tone < d.Judge.MinTone:
		t.failed = &dataset.Check{ID: toneJudged, Value: fmt.Sprintf(
			"a reader rates the tone %d of 5, wanted is at least %d: use more of the voice", opinion.Tone, d.Judge.MinTone)}
	default:
		t.opinion = opinion
		value := fmt.Sprintf("tone %d of 5", opinion.Tone)
		t.verdicts = append(t.verdicts, dataset.Check{ID: toneJudged, Pass: true, Value: value})
	}
}

// noOpinion counts an answer about which the judge gives no opinion.
func (d *decider) noOpinion(err error) {
	d.count(func(s *Summary) {
		s.JudgeFailed++
		s.JudgeError = err.Error()
	})
}

// opinion returns the judge's opinion of a rewrite, and counts the tokens that it cost.
func (d *decider) opinion(ctx context.Context, p *Prompt, text string) (*dataset.Judge, error) {
	return d.Judge.Opinion(ctx, d.Journal, p, text, d.spend)
}
