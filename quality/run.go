package quality

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"restyle/data"
	"restyle/grade"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/sidebyside"
	"restyle/kernels"
	"restyle/tensor"
	"restyle/voice"
)

// The labels of the models.
const (
	Base  = sidebyside.Base
	Tuned = sidebyside.Tuned
)

// A Model is a model to ask: its Label is Base or Tuned, and its Name is what models.OpenTuned takes. If that is an
// adapter, On is the model that it is for; "": the one that it names.
type Model struct{ Label, Name, On string }

// Options are the models and questions of a Run, and how it grades the answers.
type Options struct {
	Models    []Model         // one or two, with different labels
	Questions []data.Question // in order
	After     int             // asked before each in one conversation: the ones before it; 0: each in a new one
	Sequences int             // questions asked at once, unless After is set; 0: 16 on a CPU, 64 on a GPU
	MaxTokens int             // maximum tokens of an answer, at least 1
	Style     *voice.Style    // whose tone is scored
	Python    string          // the Python 3 that runs answers; "" runs none

	// Unprotected runs answers without a sandbox, as this process's user: they may do whatever the user may.
	Unprotected bool

	Device  string       // as for kernels.Open
	Threads int          // of all models together; 0 for GOMAXPROCS
	DType   tensor.DType // as in infer.OpenOptions

	Template string // as in infer.OpenOptions

	// Note, if not nil, is called with each line that a user should know about the device.
	Note func(line string)
	// Progress, if not nil, is called with what Run is doing, with what, and the share of it that is done.
	Progress func(doing, what string, share float64)
}

// threads returns the number of threads of each model.
func (o *Options) threads() int {
	n := o.Threads
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return max(n/len(o.Models), 1)
}

// sequences returns how many questions are asked at once.
func (o *Options) sequences(d *kernels.Device) int {
	switch {
	case o.After > 0:
		return 1
	case o.Sequences > 0:
		return o.Sequences
	case d.IsCPU():
		return 16
	}
	return 64
}

// run runs code with checks.
func (o *Options) run(ctx context.Context, trials []grade.Trial) ([]grade.Verdict, error) {
	if o.Unprotected {
		return grade.RunUnprotected(ctx, o.Python, trials)
	}
	return grade.Run(ctx, o.Python, trials)
}

func (o *Options) progress(doing, what string, share float64) {
	if o.Progress != nil {
		o.Progress(doing, what, share)
	}
}

// Run asks every model every question and grades the answers. The models answer in parallel, by greedy decoding, with
// chat's prompts. An answer depends only on its conversation: see package batch.
//
// If ctx ends early, the report covers the questions that all models have answered so far, and Complete is false. If
// there are none, Run returns ctx's error. It is an error if a model cannot be opened, if Python does not run, or if
// there is no sandbox for it (see [grade.Run]). If a question cannot be asked, for example because it is longer than a
// model's context, its Answer has the error.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Of: len(o.Questions), After: o.After, MaxTokens: o.MaxTokens, Style: o.Style.Name,
		ToneThreshold: o.Style.MinScore}
	if o.Python != "" {
		v, err := o.run(ctx, []grade.Trial{{Code: "import sys\nprint(sys.version.split()[0])"}})
		if err == nil && !v[0].Right {
			err = fmt.Errorf("%s: %s", o.Python, v[0].Error)
		}
		if err != nil {
			return nil, err
		}
		r.Python = strings.TrimSpace(v[0].Printed)
	}
	sides, err := o.openAll(ctx)
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r.Rows = o.ask(ctx, sides)
	if r.Questions = len(r.Rows); r.Questions == 0 && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.AskSeconds = time.Since(start).Seconds()
	start = time.Now()
	o.progress("grading", cli.Count(r.Questions*len(sides), "answer"), 0)
	if err := o.grade(context.WithoutCancel(ctx), r.Rows); err != nil {
		return nil, err
	}
	r.GradeSeconds = time.Since(start).Seconds()
	for _, s := range sides {
		r.Models = append(r.Models, ModelReport{Label: s.Label, Name: s.engine.Name, DType: s.engine.Types(),
			Template: s.engine.Template.Name})
	}
	r.count()
	return r, nil
}

// ask asks all models the questions. If ctx ends, it returns those that all models have answered.
func (o *Options) ask(ctx context.Context, sides []*side) []Row {
	of := len(o.Questions)
	all := make([]Row, of)
	var counting sync.Mutex // of done and the calls of Progress
	done := 0
	tell := func() { o.progress("asking", fmt.Sprintf("%d of %d questions", done, of), float64(done)/float64(of)) }
	tell()
	var asking errgroup.Group
	asking.SetLimit(o.sequences(sides[0].device))
	for i, q := range o.Questions {
		if ctx.Err() != nil {
			break
		}
		asking.Go(func() error {
			answers := make([]*Answer, len(sides))
			var wait sync.WaitGroup
			for j, s := range sides {
				wait.Go(func() { answers[j] = s.ask(ctx, q, o.After) })
			}
			wait.Wait()
			counting.Lock()
			defer counting.Unlock()
			if ctx.Err() != nil {
				return nil
			}
			all[i] = Row{Question: q, Answers: map[string]*Answer{}}
			for j, s := range sides {
				all[i].Answers[s.Label] = answers[j]
			}
			done++
			tell()
			return nil
		})
	}
	_ = asking.Wait() // an answer's error is in the answer
	return slices.DeleteFunc(all, func(row Row) bool { return row.Answers == nil })
}

// openAll opens the models. The caller must close those that it returns, even after an error.
func (o *Options) openAll(ctx context.Context) (sides []*side, err error) {
	h := hub.FromEnv()
	h.Progress = func(p hub.Progress) { o.progress("downloading", p.Name, float64(p.Done)/float64(max(p.Total, 1))) }
	if o.Note != nil {
		h.Waiting = o.Note
	}
	for _, m := range o.Models {
		o.progress("opening", m.Name, 0)
		s, err := o.open(ctx, h, m)
		if err != nil {
			return sides, err
		}
		sides = append(sides, s)
		for _, n := range s.engine.Notes {
			if o.Note != nil {
				o.Note(m.Label + " model: " + n)
			}
		}
		for _, n := range s.device.Notes() {
			if o.Note != nil && len(sides) == 1 { // the other model has the same notes
				o.Note(n)
			}
		}
	}
	for _, s := range sides {
		if err := s.makeRoom(o.sequences(s.device)); err != nil {
			return sides, err
		}
	}
	return sides, nil
}
