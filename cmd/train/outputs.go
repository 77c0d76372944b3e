package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"restyle/data"
	"restyle/internal/disk"
	"restyle/kernels"
	"restyle/trainer"
	"restyle/trainer/report"
	"restyle/voice"
)

// outputs are what a run shows and leaves behind while it goes on: progress, TensorBoard events, the loss curve.
type outputs struct {
	t      *train
	events *report.Events
	curve  report.Curve
	recent []trainer.Step // for the speed and the mean loss of what is shown
	tone   *float64       // of the last evaluation
	looked float64        // seconds of the last evaluation
	saved  float64        // and of the last checkpoint
	drawn  time.Time
	failed error // of the files; the run goes on, and ends with it
}

// redraw is the time between two drawings of the progress.
const redraw = 100 * time.Millisecond

func (t *train) openOutputs() (*outputs, error) {
	o := &outputs{t: t}
	o.curve.Title = "restyle: " + t.title()
	done := t.run.State()
	// What a resumed run did before is in its metrics.
	steps, err := report.ReadMetrics[metricsLine](filepath.Join(t.dir, "metrics.jsonl"))
	if err != nil { // nothing of the run depends on them
		t.note("%v: the curve goes without what cannot be read, and the file stays as it is", err)
	}
	for _, l := range steps {
		o.plot(l)
	}
	first := done.Step + 1 // what TensorBoard has from there on was done by a run that was killed
	if done.Step == 0 && done.Pending != "" {
		first = 0
	}
	if o.events, err = report.Create(filepath.Join(t.dir, "tensorboard"), first); err != nil {
		return nil, err
	}
	t.status.DrawBar(done.Step, t.plan.Steps, "")
	return o, nil
}

// A metricsLine is any line of metrics.jsonl.
type metricsLine struct {
	Step    int            `json:"step"`
	Loss    *report.Number `json:"loss"`
	LR      float64        `json:"lr"`
	ValLoss *report.Number `json:"val_loss"`
	Tone    *float64       `json:"tone"`
}

func (o *outputs) plot(l metricsLine) {
	if l.Tone != nil {
		o.tone = l.Tone
	}
	if l.Loss != nil {
		o.curve.Steps = append(o.curve.Steps, report.CurveStep{X: float64(l.Step), Loss: float64(*l.Loss), Rate: l.LR})
	}
	if l.ValLoss != nil {
		o.curve.Validation = append(o.curve.Validation, report.CurvePoint{X: float64(l.Step), Loss: float64(*l.ValLoss)})
	}
}

// observe is told of everything.
func (o *outputs) observe(event any) {
	switch e := event.(type) {
	case trainer.Phase:
		if e == trainer.Saving {
			o.fail(o.events.Sync())
		}
		if o.t.watch != nil {
			o.t.watch(e)
		}
	case trainer.Step:
		o.step(e)
	case trainer.Evaluation:
		o.evaluation(e)
	case trainer.Saved:
		o.saved = e.Seconds
		o.fail(o.draw())
		o.t.note("checkpoint %s, %.1f s", e.Dir, e.Seconds)
	}
}

func (o *outputs) step(s trainer.Step) {
	loss := s.Loss
	o.plot(metricsLine{Step: s.Step, Loss: &loss, LR: s.LR})
	o.recent = append(o.recent, s)
	if len(o.recent) > 20 {
		o.recent = o.recent[1:]
	}
	o.events.Scalar(s.Step, report.TagLoss, float64(s.Loss))
	o.events.Scalar(s.Step, report.TagLearningRate, s.LR)
	o.events.Scalar(s.Step, report.TagGradNorm, float64(s.GradNorm))
	o.events.Scalar(s.Step, report.TagSpeed, float64(s.Tokens)/s.Seconds)
	if s.Skipped {
		o.t.note("step %d: the gradient is not finite: skipped", s.Step)
	}
	plan := o.t.plan
	switch {
	case !o.t.status.On() && (s.Step%o.t.logEvery == 0 || s.Step == plan.Steps || s.Step == 1):
		o.t.note("step %d/%d, epoch %.2f: %s", s.Step, plan.Steps, s.Epoch, o.line(s))
	case time.Since(o.drawn) > redraw:
		o.drawn = time.Now()
		o.t.status.DrawBar(s.Step, plan.Steps, o.line(s))
	}
}

// line is how a run goes, over the last steps. What a person looks for first comes first: a narrow terminal cuts the end.
func (o *outputs) line(s trainer.Step) string {
	var seconds, tokens, trained, loss float64
	for _, r := range o.recent {
		seconds += r.Seconds
		tokens += float64(r.Tokens)
		trained += float64(r.Trained)
		loss += float64(r.Loss) / float64(len(o.recent))
	}
	left := seconds / float64(len(o.recent)) * float64(o.t.plan.Steps-s.Step)
	left += o.looked*float64(o.t.plan.Left(o.t.settings.EvalEvery, s.Step)) + o.saved*float64(o.t.plan.Left(o.t.settings.SaveEvery, s.Step))
	return fmt.Sprintf("loss %.3f, %s left, %s tok/s (%s learned), grad %.2f, lr %.1e",
		loss, time.Duration(left*float64(time.Second)).Round(time.Second), short(tokens/seconds), short(trained/seconds), float64(s.GradNorm), s.LR)
}

// short is a number as people read it: 950, 14.2k.
func short(x float64) string {
	if x < 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1fk", x/1000)
}

func (o *outputs) evaluation(e trainer.Evaluation) {
	o.looked = e.Seconds
	var parts []string
	line := metricsLine{Step: e.Step, Tone: e.Tone}
	if loss := e.Loss; e.Measured {
		if loss == loss { // a number
			line.ValLoss = &loss
		}
		o.events.Scalar(e.Step, report.TagEvalLoss, float64(loss))
		best := ""
		if e.Best && e.Step > 0 {
			best = ", the best so far"
		}
		parts = append(parts, fmt.Sprintf("validation loss %.4f%s", float64(loss), best))
	}
	o.plot(line)
	if e.Tone != nil {
		o.events.Scalar(e.Step, o.t.toneTag(), *e.Tone)
		parts = append(parts, fmt.Sprintf("tone %.1f", *e.Tone))
	}
	for _, s := range e.Samples {
		o.events.Text(e.Step, report.TagResponse, "**"+s.Question+"**\n\n"+s.Answer)
	}
	if parts != nil {
		o.t.note("after step %d: %s", e.Step, strings.Join(parts, ", "))
	}
	o.fail(errors.Join(o.events.Flush(), o.draw()))
}

func (o *outputs) fail(err error) { o.failed = errors.Join(o.failed, err) }

// draw writes the loss curve.
func (o *outputs) draw() error {
	if len(o.curve.Steps) == 0 {
		return nil
	}
	var svg bytes.Buffer
	if err := report.LossSVG(&svg, o.curve); err != nil {
		return err
	}
	return disk.Write(filepath.Join(o.t.dir, "loss.svg"), svg.Bytes(), 0o666)
}

func (o *outputs) close() error {
	o.t.status.Clear()
	return errors.Join(o.draw(), o.events.Close())
}

// title says in a few words what is trained on what. It stands in files that people publish, so a directory is named
// without the path that leads to it.
func (t *train) title() string {
	return fmt.Sprintf("%s on %s", t.publicName(), t.set.Name)
}

func (t *train) publicName() string {
	if info, err := os.Stat(t.model); err == nil && info.IsDir() && t.fromScratch == "" && t.model != data.StarterName {
		return filepath.Base(t.baseName())
	}
	return t.modelName()
}

func (t *train) modelName() string {
	if t.fromScratch != "" {
		return "new model"
	}
	return t.origin.Name
}

// toneTag is the tag of the tone score: that of the original project for the voice that it had, and another for others.
func (t *train) toneTag() string {
	if t.tone.Name == voice.Default {
		return report.TagRudeness
	}
	return report.TagTone
}

// loading shows how far the reading of weights is, where it takes long enough to be watched.
func (t *train) loading() func(done, total int64) {
	began, drawn := time.Now(), time.Time{}
	return func(done, total int64) {
		switch {
		case done == total:
			t.status.Clear()
		case time.Since(began) >= time.Second && time.Since(drawn) >= redraw:
			drawn = time.Now()
			t.status.Draw(fmt.Sprintf("reading the weights: %s of %s", kernels.Bytes(int(done)), kernels.Bytes(int(total))))
		}
	}
}
