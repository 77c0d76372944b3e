package teacher

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"restyle/dataset"
	"restyle/teacher/openai"
)

// Judge asks a second model to rate accepted rows. Its opinion goes into the certificate and decides nothing: nothing
// sways language models more than style, and style is what changed.
type Judge struct{ Remote }

//nolint:lll // a prompt
const judgePrompt = `You compare two answers to the same programming question. The code in both is the same; only the words around it differ. Judge the words of the second answer. Reply with one JSON object and nothing else:
{"tone": N, "professional": B, "technically_wrong": [Q, ...]}
N from 1 to 5: how strongly the words have this voice: %s.
B is true if a colleague could say it at work without being sent to the human resources department, else false.
Each Q quotes, word for word, a statement of the second answer that is technically wrong; [] if there is none.`

// Opinion returns the judge's opinion of a rewrite. If the journal does not have the judge's answer, Opinion asks for
// it, records it, and returns it as spent. It returns an error if there is no opinion.
func (g *Judge) Opinion(
	ctx context.Context, j *Journal, p *Prompt, text string,
) (opinion *dataset.Judge, spent Answer, err error) {
	r := g.render(openai.Request{
		Model: g.Model, MaxTokens: g.MaxTokens, Seed: 1, Extra: g.Extra, // temperature 0
		Messages: g.fold([]openai.Message{
			{Role: "system", Content: fmt.Sprintf(judgePrompt, p.Style.About)},
			{Role: "user", Content: fmt.Sprintf("<question>\n%s\n</question>\n<first>\n%s\n</first>\n<second>\n%s\n</second>",
				p.Question, p.Row.Output, text)},
		}),
	})
	a, found := j.Find(r.Keys)
	if !found {
		var key string
		if a, key, err = g.Ask(ctx, p, r); err != nil {
			return nil, spent, err
		}
		spent = a
		if err := j.Add(AnswerRecord{Key: key, Row: p.Row.Index, Answer: a}); err != nil {
			return nil, spent, err
		}
	}
	if opinion, err = parseOpinion(a.Text); err != nil {
		return nil, spent, err
	}
	opinion.Model = g.Model
	return opinion, spent, nil
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
