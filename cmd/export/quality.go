package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"text/tabwriter"

	"restyle/data"
	"restyle/internal/cli"
	"restyle/internal/sandbox"
	"restyle/kernels"
	"restyle/quality"
	"restyle/voice"
)

// answerTokens is the maximum number of tokens of an answer, as in bench quality.
const answerTokens = 320

// answers asks the models in IN and OUT the held-out questions, and grades the answers as bench quality does. Without
// a Python, or without a sandbox for it, answers only tells which answers parse.
func (o options) answers(ctx context.Context, in, out string, questions []data.Question,
	status *cli.StatusLine) (*quality.Report, error) {
	style, err := voice.Load(voice.Default)
	if err != nil {
		return nil, err
	}
	python, _ := exec.LookPath("python3")
	q := quality.Options{Questions: questions, MaxTokens: answerTokens, Style: style, Python: python, Device: "cpu",
		Template: o.template,
		Models:   []quality.Model{{Label: quality.Base, Name: in}, {Label: quality.Tuned, Name: out}},
		Threads:  o.threads, Progress: (&cli.Progress{Line: status}).Draw}
	r, err := quality.Run(ctx, q)
	if errors.Is(err, sandbox.ErrUnavailable) {
		q.Python = ""
		return quality.Run(ctx, q)
	}
	return r, err
}

// A cost compares a model before and after its weights are quantized.
type cost struct {
	bytes      [2]float64      // 0 if they were not counted
	perplexity [2]float64      // 0 if it was not measured
	answers    *quality.Report // of both models; nil if they were not asked
}

// print prints the closing table, as far as the results are known.
func (c cost) print(out io.Writer) error {
	if c.bytes[0] == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tbefore\tafter\tchange")
	row := func(what, format string, of [2]float64) {
		fmt.Fprintf(w, "%s\t"+format+"\t"+format+"\t%+.2f%%\n", what, of[0], of[1], 100*(of[1]/of[0]-1))
	}
	fmt.Fprintf(w, "weights\t%s\t%s\t%+.0f%%\n", kernels.Bytes(int(c.bytes[0])), kernels.Bytes(int(c.bytes[1])),
		100*(c.bytes[1]/c.bytes[0]-1))
	if c.perplexity[1] > 0 {
		row("perplexity of the reference answers", "%.4f", c.perplexity)
	}
	if c.answers == nil {
		return w.Flush()
	}
	count := func(what string, of func(m quality.Metrics) int) {
		var n [2]int
		for i, m := range c.answers.Models {
			n[i] = m.All(of)
		}
		fmt.Fprintf(w, "of %s, %s\t%d\t%d\t%+d\n", cli.Count(c.answers.Questions, "answer"), what, n[0], n[1], n[1]-n[0])
	}
	if c.answers.Python != "" {
		count("right", func(m quality.Metrics) int {
			if m.Right == nil {
				return 0
			}
			return *m.Right
		})
	}
	count("Python", func(m quality.Metrics) int { return m.Parse })
	count("ended by the model", func(m quality.Metrics) int { return m.Stop })
	return w.Flush()
}
