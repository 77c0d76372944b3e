package quality

import (
	"context"
	"slices"
	"strings"

	"restyle/data"
	"restyle/dataset"
	"restyle/grade"
	"restyle/infer"
	"restyle/internal/python"
	"restyle/voice"
)

// An Answer is one model's answer to one question, with its grades.
type Answer struct {
	Text   string       `json:"text"`
	Reason infer.Reason `json:"reason"` // why the answer ended
	Tokens int          `json:"tokens"` // without the token that ended the answer
	Error  string       `json:"error,omitempty"`

	Code   string `json:"code"`   // see Code
	Parses bool   `json:"parses"` // there is code, and it is Python
	// the code ran and passed the check; nil if nothing was run or the question is broken
	Right   *bool  `json:"right,omitempty"`
	Wrong   string `json:"wrong,omitempty"`   // why the code is not right
	Printed string `json:"printed,omitempty"` // what the code printed
	// why the check fails the question's own answer, so that it cannot grade this one
	Broken string `json:"broken,omitempty"`

	Words     int      `json:"words"` // of prose
	Tone      int      `json:"tone"`  // score
	Cues      []string `json:"cues,omitempty"`
	Opener    string   `json:"opener,omitempty"`
	FirstFive string   `json:"first_five,omitempty"`

	// it says that it cannot help, and should not; nil if nothing was run, or if that is not known of the question
	Refuses *bool `json:"refuses,omitempty"`

	Loss       float64 `json:"loss"` // sum over the tokens of the reference answer, in nats
	LossTokens int     `json:"loss_tokens"`
}

// A Row is a question with its answers by label.
type Row struct {
	data.Question
	Answers map[string]*Answer `json:"answers"`
}

// trial returns what tells whether a whole answer to a question is right.
func trial(q data.Question, answer string) grade.Trial {
	if q.Words {
		return grade.OfText(answer, q.Check)
	}
	return grade.Trial{Code: Code(answer), Check: q.Check}
}

// asked returns the question as the models read it.
func asked(q data.Question) string { return dataset.Question(q.Instruction, q.Input) }

// grade finds the code and the tone of every answer, and runs the code.
func (o *Options) grade(ctx context.Context, rows []Row) error {
	var trials []grade.Trial
	var tried []*Answer
	var questions []data.Question // of tried
	for _, row := range rows {
		trials = append(trials, trial(row.Question, row.Output))
	}
	for _, row := range rows {
		for _, a := range row.Answers {
			a.read(o.Style)
			trials = append(trials, trial(row.Question, a.Text))
			tried, questions = append(tried, a), append(questions, row.Question)
		}
	}
	if o.Python == "" {
		return nil
	}
	verdicts, err := o.run(ctx, trials)
	if err != nil {
		return err
	}
	for i, a := range tried {
		v := verdicts[len(rows)+i]
		if !questions[i].Words {
			a.Parses = v.Parses && strings.TrimSpace(a.Code) != ""
		}
		a.Right, a.Wrong, a.Printed = new(v.Right), v.Error, v.Printed
	}
	for i := range rows {
		for _, a := range rows[i].Answers {
			if a.Broken = verdicts[i].Error; a.Broken != "" {
				a.Right, a.Wrong = nil, ""
			}
		}
	}
	return o.findRefusals(ctx, rows)
}

// refusal returns the check of the questions about something else, which tells a refusal, if they have one in common.
func refusal(rows []Row) (check string) {
	for _, row := range rows {
		switch {
		case row.Group != "outside":
		case check != "" && check != row.Check || !row.Words:
			return ""
		default:
			check = row.Check
		}
	}
	return check
}

// findRefusals tells which answers to typed questions are refusals, unless the reference answer is one as well.
func (o *Options) findRefusals(ctx context.Context, rows []Row) error {
	check := refusal(rows)
	if check == "" {
		return nil
	}
	var trials []grade.Trial
	var answers []*Answer // nil: the reference answer to the question of those before it
	for _, row := range rows {
		if row.Group != "typed" {
			continue
		}
		for _, a := range row.Answers {
			trials, answers = append(trials, grade.OfText(a.Text, check)), append(answers, a)
		}
		trials, answers = append(trials, grade.OfText(row.Output, check)), append(answers, nil)
	}
	verdicts, err := o.run(ctx, trials)
	if err != nil {
		return err
	}
	should := false
	for i, a := range slices.Backward(answers) {
		if a == nil {
			should = verdicts[i].Right
			continue
		}
		a.Refuses = new(verdicts[i].Right && !should)
	}
	return nil
}

// read finds the grades that do not need to run the code.
func (a *Answer) read(style *voice.Style) {
	a.Code = Code(a.Text)
	a.Parses = strings.TrimSpace(a.Code) != "" && python.Check(a.Code) == nil
	prose := Prose(a.Text)
	read := voice.Read(prose)
	tone := style.Tone(read)
	a.Words, a.Tone, a.Cues = tone.Words, tone.Score, tone.Cues
	a.Opener, a.FirstFive = read.Opener(), read.FirstFive()
}
