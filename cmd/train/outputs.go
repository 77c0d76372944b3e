package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/trainer"
	"restyle/trainer/report"
	"restyle/voice"
)

// outputs are what a run shows and writes on the way: progress, TensorBoard events, the loss curve.
type outputs struct {
	*train
	events      *report.Events
	curve       report.Curve
	recent      []trainer.Step // for the displayed speed and mean loss
	tone        *float64       // of the last evaluation
	evalSeconds float64        // of the last evaluation
	saveSeconds float64        // of the last checkpoint
	drawn       time.Time
	logged      pace  // lines of steps
	saved       pace  // lines of checkpoints
	validated   pace  // lines of validations
	pictured    pace  // loss.svg
	sampled     pace  // samples on a terminal
	warned      bool  // that the loss rises
	failed      error // the first error of the files: the run continues, and returns it at its end
	unlockCSV   func() error
}

// A pace lets something through that did not come for a while.
type pace struct{ last time.Time }

// The minimum time between two lines of the same kind: of steps, checkpoints and samples, and of validations.
const lineEvery, validationEvery = 5 * time.Second, time.Second

// due reports whether it is time again, and then counts from now.
func (p *pace) due(now time.Time, every time.Duration) bool {
	if !p.last.IsZero() && now.Sub(p.last) < every {
		return false
	}
	p.last = now
	return true
}

// redraw is the minimum time between two drawings of the progress.
const redraw = 100 * time.Millisecond

// openOutputs opens the outputs of a started run, and sets the run's hooks.
func (t *train) openOutputs() (*outputs, error) {
	done := t.run.State()
	first := done.Step + 1 // later steps in TensorBoard come from a run that was killed
	if done.Step == 0 && done.Pending != "" {
		first = 0
	}
	events, err := report.Create(filepath.Join(t.dir, "tensorboard"), first)
	if err != nil {
		return nil, err
	}
	o := &outputs{train: t, events: events, curve: report.Curve{Title: "restyle: " + t.title()}}
	// The metrics have the steps that a resumed run took before.
	lines, err := report.ReadMetrics[metricsLine](filepath.Join(t.dir, "metrics.jsonl"))
	if err != nil { // the run does not depend on them
		t.note("%v: the curve leaves out what cannot be read, and the file stays as it is", err)
	}
	for _, l := range lines {
		o.plot(l)
	}
	o.unlockCSV = func() error { return nil }
	if t.csvInside() {
		if o.unlockCSV, err = t.lockCSV(); err != nil {
			return nil, errors.Join(err, events.Close())
		}
	}
	if err := o.writeCSV(); err != nil {
		return nil, errors.Join(err, o.unlockCSV(), events.Close())
	}
	h := &t.run.Hooks
	h.Step = o.step
	h.Evaluation = o.evaluation
	h.Saved = o.checkpoint
	h.Phase = o.phase
	t.status.DrawBar(done.Step, t.job.Plan.Steps, "")
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
		o.curve.Validation = append(o.curve.Validation, report.CurvePoint{X: float64(l.Step), Y: float64(*l.ValLoss)})
	}
}

func (o *outputs) phase(p trainer.Phase) {
	o.power.phase(p, time.Now())
	if p == trainer.Saving {
		o.fail(o.events.Sync())
	}
	if o.watch != nil {
		o.watch(p)
	}
}

func (o *outputs) checkpoint(s trainer.Saved) {
	o.saveSeconds = s.Seconds
	o.fail(o.draw())
	if o.saved.due(time.Now(), lineEvery) || s.Step == o.job.Plan.Steps {
		o.note("checkpoint %s, %.1f s", s.Dir, s.Seconds)
	}
}

func (o *outputs) step(s trainer.Step) {
	now := time.Now()
	o.gauge.look(now)
	o.power.step(now)
	o.beginning.step(now)
	loss := s.Loss
	o.plot(metricsLine{Step: s.Step, Loss: &loss, LR: s.LR})
	o.recent = append(o.recent, s)
	if len(o.recent) > 20 {
		o.recent = o.recent[1:]
	}
	o.events.Scalar(s.Step, report.TagLoss, float64(s.Loss))
	o.events.Scalar(s.Step, report.TagLearningRate, s.LR)
	o.events.Scalar(s.Step, report.TagGradNorm, float64(s.GradNorm))
	if o.base.Config.Mixture != nil {
		o.events.Scalar(s.Step, report.TagAuxiliary, float64(s.Auxiliary))
	}
	o.events.Scalar(s.Step, report.TagSpeed, float64(s.Tokens)/s.Seconds)
	if s.Skipped {
		o.note("step %d: the gradient is not finite: skipped", s.Step)
	}
	steps := o.job.Plan.Steps
	switch {
	case !o.status.On() && o.logs(s.Step, now):
		o.note("step %d/%d, epoch %.2f: %s", s.Step, steps, s.Epoch, o.progress(s))
	case now.Sub(o.drawn) > redraw:
		o.drawn = now
		o.status.DrawBar(s.Step, steps, o.progress(s))
	}
}

// logs reports whether a step has a line of its own if there is no terminal.
func (o *outputs) logs(step int, now time.Time) bool {
	due := o.logEvery > 0 && step%o.logEvery == 0 || o.logEvery == 0 && o.logged.due(now, lineEvery)
	return due || step == 1 || step == o.job.Plan.Steps
}

// progress describes the run over the last steps, most important first, because a narrow terminal cuts off the end.
func (o *outputs) progress(s trainer.Step) string {
	var seconds, tokens, targets, loss float64
	for _, r := range o.recent {
		seconds += r.Seconds
		tokens += float64(r.Tokens)
		targets += float64(r.Targets)
		loss += float64(r.Loss) / float64(len(o.recent))
	}
	left := seconds / float64(len(o.recent)) * float64(o.job.Plan.Steps-s.Step)
	saves := 1.0 // by time, and then they are a small part of it
	if o.config.SaveEvery > 0 {
		saves = float64(o.job.Plan.Left(o.config.SaveEvery, s.Step))
	}
	left += o.evalSeconds*float64(o.job.Plan.EvaluationsLeft(s.Step)) + o.saveSeconds*saves
	return fmt.Sprintf("loss %.3f, %s left, lr %.1e, grad %.2f, %s tok/s, %s targets/s",
		loss, time.Duration(left*float64(time.Second)).Round(time.Second), s.LR, float64(s.GradNorm), short(tokens/seconds),
		short(targets/seconds))
}

// short formats a number for people: 950, 14.2k.
func short(x float64) string {
	if x < 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1fk", x/1000)
}

func (o *outputs) evaluation(e trainer.Evaluation) {
	o.evalSeconds = e.Seconds
	o.beginning.evaluation(e)
	var parts []string
	line := metricsLine{Step: e.Step, Tone: e.Tone}
	if loss := e.Loss; e.Measured {
		if loss == loss { // not NaN
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
		o.events.Scalar(e.Step, o.toneTag(), *e.Tone)
		parts = append(parts, fmt.Sprintf("tone %.1f", *e.Tone))
	}
	for _, s := range e.Samples {
		o.events.Text(e.Step, report.TagResponse, "**"+s.Question+"**\n\n"+s.Answer)
	}
	special := e.Step == o.job.Plan.Steps || e.Measured && line.ValLoss == nil
	if due := o.validated.due(time.Now(), validationEvery); parts != nil && (due || special) {
		o.note("after step %d: %s", e.Step, strings.Join(parts, ", "))
	}
	o.showSamples(e)
	o.warn(e)
	err := o.events.Flush()
	if o.pictured.due(time.Now(), lineEvery) {
		err = errors.Join(err, o.draw())
	} else {
		err = errors.Join(err, o.writeCSV())
	}
	o.fail(err)
}

// showSamples shows the samples of an evaluation on a terminal, a line for each: metrics.jsonl has them in full.
func (o *outputs) showSamples(e trainer.Evaluation) {
	if !o.status.On() || e.Samples == nil || !o.sampled.due(time.Now(), lineEvery) && e.Step < o.job.Plan.Steps {
		return
	}
	width := o.status.Width() - 1
	for _, s := range e.Samples {
		question := "  " + cli.Shorten(cli.Clean(s.Question), width/3) + " → "
		fmt.Fprintln(o.stderr, question+cli.Shorten(cli.Clean(s.Answer), width-cli.Columns(question)))
	}
}

// warn says once that the validation loss rises as it does if the learning rate is far too high.
func (o *outputs) warn(e trainer.Evaluation) {
	loss := float64(e.Loss)
	if v := o.curve.Validation; o.warned || !e.Measured || e.Step == 0 || len(v) == 0 || loss <= v[0].Y+0.5 {
		return
	}
	o.warned = true
	o.note("the validation loss rises: it was %.2f after step %.0f: if it does not fall again, the learning rate, %s, is "+
		"too high", o.curve.Validation[0].Y, o.curve.Validation[0].X, rate(o.config.LR))
}

// fail notes an error of the files: only the first, as each step may have the same one.
func (o *outputs) fail(err error) {
	if err == nil || o.failed != nil {
		return
	}
	o.failed = err
	o.note("%v: the run continues, but will end with this error; if the disk is full, free some space meanwhile", err)
}

// csvInside reports whether the file of --log-csv is in the run's directory.
func (t *train) csvInside() bool { return t.logCSV != "" && disk.Holds(t.dir, t.logCSV) }

// lockCSV keeps other runs from writing the file of --log-csv until unlock is called. A run calls it before it starts,
// or if the file is in its directory, which may yet be renamed, afterwards.
func (t *train) lockCSV() (unlock func() error, err error) {
	if t.logCSV == "" {
		return func() error { return nil }, nil
	}
	path, err := disk.Follow(t.logCSV)
	if err != nil {
		return nil, fmt.Errorf("--log-csv: %w", err)
	}
	lock, err := disk.Lock(path + ".lock")
	switch {
	case errors.Is(err, disk.ErrLocked):
		return nil, fmt.Errorf("--log-csv: %w: wait for it or stop it, or choose another file", err)
	case err != nil:
		return nil, fmt.Errorf("--log-csv: %w: choose another file", err)
	}
	return lock.Remove, nil
}

// writeCSV writes the steps so far to the file of --log-csv, completely or not at all. Before it replaces a file that
// is not the start of this run, it backs up that file.
func (o *outputs) writeCSV() error {
	if o.logCSV == "" {
		return nil
	}
	data := o.curve.CSV()
	path, err := disk.Follow(o.logCSV)
	if err != nil {
		return fmt.Errorf("--log-csv: %w", err)
	}
	old, err := disk.ReadInput(path, int64(len(data)))
	if !errors.Is(err, fs.ErrNotExist) && (err != nil || !bytes.HasPrefix(data, old)) {
		if _, err := disk.Backup(path); err != nil {
			return fmt.Errorf("--log-csv: %w", err)
		}
	}
	if err := disk.Write(path, data, 0o666); err != nil {
		return fmt.Errorf("--log-csv: %w", err)
	}
	return nil
}

// draw writes the loss curve to loss.svg, and the file of --log-csv.
func (o *outputs) draw() error {
	if err := o.writeCSV(); err != nil {
		return err
	}
	if len(o.curve.Steps) == 0 {
		return nil
	}
	var svg bytes.Buffer
	if err := report.LossSVG(&svg, o.curve); err != nil {
		return err
	}
	return disk.Write(filepath.Join(o.dir, "loss.svg"), svg.Bytes(), 0o666)
}

func (o *outputs) close() error {
	o.status.Clear()
	return errors.Join(o.draw(), o.unlockCSV(), o.events.Close())
}

// title returns the names of the model and the data. It is in files that people publish, so a directory has no path.
func (t *train) title() string {
	return fmt.Sprintf("%s on %s", t.publicName(), t.set.Name)
}

func (t *train) publicName() string {
	if base := t.baseName(); filepath.IsAbs(base) {
		return filepath.Base(base)
	}
	return t.modelName()
}

func (t *train) modelName() string {
	if t.fromScratch != "" {
		return "new model"
	}
	return t.base.Name
}

// toneTag returns the TensorBoard tag of the tone score: the original project's tag for its voice, another one for
// other styles.
func (t *train) toneTag() string {
	if t.voice.Name == voice.Default {
		return report.TagRudeness
	}
	return report.TagTone
}
