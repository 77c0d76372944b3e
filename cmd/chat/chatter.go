package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"restyle/chat"
	"restyle/hf/hub"
	"restyle/infer"
	"restyle/internal/cli"
	"restyle/internal/models"
	"restyle/kernels"
)

// chatter is one run of the command.
type chatter struct {
	*options
	stdin       io.Reader
	out, notes  io.Writer       // answers, and messages about them
	status      *cli.StatusLine // the notes, until a session takes over the terminal
	terminal    bool            // out is a terminal
	interactive bool            // a person types
	interrupts  *interrupts

	sides   []*side
	display display
	record  *record // nil if there is no log
	prefill func(text string)
	recall  func(text string) // adds to what the up arrow brings back

	embedded bool     // one of the models is the embedded one, or was made from it
	fresh    bool     // each question starts a new conversation
	examples []string // the questions that /examples showed last
	shown    int      // how many it has shown

	asked   string // the last question
	attempt int    // how often it was answered again
	editing bool   // the next input replaces it
	last    string // id of the last question in the record

	drawn time.Time // when the progress of a download was last shown
}

// note prints a message. On a terminal, it breaks long lines between words.
func (c *chatter) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if width := c.noteWidth(); width > 0 {
		text = strings.Join(cli.Wrap(text, max(20, width)), "\n")
	}
	fmt.Fprintln(c.notes, text)
}

// noteWidth returns the columns of the terminal that notes go to, or 0 if they go elsewhere.
func (c *chatter) noteWidth() (width int) {
	if t, ok := cli.Raw(c.notes).(*terminal); ok {
		width, _ = t.size()
	} else if c.status != nil && c.status.On() {
		width = c.status.Width()
	}
	return width
}

func (c *chatter) do(ctx context.Context) (err error) {
	if c.version {
		fmt.Fprintln(c.out, "chat", cli.Version())
		return nil
	}
	questions, err := c.questions()
	if err != nil {
		return err
	}
	h := hub.FromEnv()
	h.Offline = h.Offline || c.offline
	h.Waiting = func(message string) { c.note("%s", message) }
	h.Progress = func(p hub.Progress) { c.status.DrawUntil(p.Done == p.Total, p.String()) }
	models, err := c.models(ctx, h)
	if err != nil {
		return err
	}
	if c.web {
		return c.openPage(ctx, models)
	}
	for _, m := range models {
		c.embedded = c.embedded || madeOfStarter(ctx, m.name)
	}
	c.fresh = c.conversation == "new" || c.conversation == "" && questions != nil
	if c.log != "" {
		var recovered int
		if c.record, recovered, err = openRecord(c.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.record.close()) }()
		if recovered > 0 {
			c.note("log: added the missing entries of %s that a kill had interrupted", cli.Count(recovered, "question"))
		}
	}
	close, err := c.load(ctx, h, models)
	defer func() { err = errors.Join(err, close()) }()
	if err != nil {
		return err
	}
	if questions != nil {
		c.display = c.pickDisplay(c.out, nil)
		return c.askAll(ctx, questions)
	}
	return c.converse(ctx)
}

// questions returns the questions of --prompt or --prompts, or nil.
func (c *chatter) questions() ([]prompt, error) {
	switch {
	case c.prompt != "":
		return []prompt{{question: c.prompt}}, nil
	case c.prompts == "":
		return nil, nil
	}
	questions, unused, err := openPrompts(c.prompts, c.stdin)
	if len(unused) > 0 && err == nil {
		c.note("--prompts %s: not used: %s", c.prompts, strings.Join(unused, ", "))
	}
	for i, q := range questions {
		if c.raw && q.system != nil && *q.system != "" {
			return nil, cli.Usagef("--raw has no place for a system prompt, as question %d of --prompts has one: put it in "+
				"front of the question", i+1)
		}
	}
	return questions, err
}

// converse reads questions from a terminal or a pipe.
func (c *chatter) converse(ctx context.Context) error {
	c.sayConversations()
	in, isFile := c.stdin.(*os.File)
	out, _ := c.out.(*os.File)
	if !c.terminal || !isFile || !cli.IsTerminal(in) {
		c.display = c.pickDisplay(c.out, nil)
		return c.session(ctx, newPlainInput(c.stdin))
	}
	c.note("\n%s", c.greeting())
	t, err := openTerminal(in, out, c.record.questions(), c.interrupts.answering, c.interrupts.hit)
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w: use --prompt or --prompts", err)
	}
	notes := c.notes
	defer func() {
		t.close()
		c.notes = notes
	}()
	c.interactive = true
	c.notes = cli.CleanWriter(t)
	c.prefill = t.prefill
	c.recall = t.recall
	c.display = c.pickDisplay(t, t.size)
	return c.session(ctx, t)
}

// askAll asks all questions. If one fails, askAll prints the error, asks the rest, and returns the first error. A
// Ctrl-C stops the current answer and the rest.
func (c *chatter) askAll(ctx context.Context, questions []prompt) (failed error) {
	for i, p := range questions {
		if len(questions) > 1 {
			c.note("question %d of %d: %s", i+1, len(questions), strings.SplitN(p.question, "\n", 2)[0])
		}
		if err := c.pose(ctx, p); err != nil {
			if !errors.As(err, new(*unanswered)) {
				return err
			}
			c.note("chat: %v", err)
			if failed == nil {
				failed = &printed{err}
			}
		}
		if ctx.Err() != nil || c.interrupts.wasStopped() {
			return errStopped
		}
	}
	return failed
}

// pickDisplay returns the display for w. size returns the size of a terminal that the session has taken over; otherwise
// it is nil.
func (c *chatter) pickDisplay(w io.Writer, size func() (width, height int)) display {
	if size == nil && c.terminal {
		size = (&terminal{out: w.(*os.File)}).size
	}
	width := func() int { width, _ := size(); return width }
	switch {
	case len(c.sides) == 1 && c.terminal:
		return &plainDisplay{w: w, notes: c.notes, width: width}
	case len(c.sides) == 1:
		return &plainDisplay{w: w, notes: c.notes}
	case !c.terminal:
		return &linesDisplay{w: w, width: func() int { return 0 }}
	}
	narrow := &linesDisplay{w: w, width: width}
	return &columnsDisplay{w: w, size: size, narrow: narrow}
}

// load opens the models. The function that it returns closes what was opened, also after an error.
func (c *chatter) load(ctx context.Context, h *hub.Hub, refs []modelRef) (closeAll func() error, err error) {
	var opened []func() error
	closeAll = func() (err error) {
		for i := len(opened) - 1; i >= 0; i-- {
			err = errors.Join(err, opened[i]())
		}
		return err
	}
	device, err := kernels.Open(c.device, kernels.Options{Threads: c.threads, Fused: kernels.All(),
		NoBF16: c.dtype == "fp32" || c.dtype == "fp16"})
	if err != nil {
		return closeAll, fmt.Errorf("--device %s: %w", c.device, err)
	}
	opened = append(opened, device.Close)
	for _, n := range device.Notes() {
		c.note("%s", n)
	}
	if device.SetINT8Activations(c.quantize == infer.INT8x8); c.quantize == infer.INT8x8 && !device.IsCPU() {
		c.note("--quantize int8x8: a GPU quantizes the activations of prompts, and in bf16 not those of answers")
	}
	if c.status.On() {
		h.Progress = c.showDownload
	}
	for _, ref := range refs {
		start := time.Now()
		c.status.Draw(fmt.Sprintf("loading %s …", ref.name))
		engine, err := c.loadOne(ctx, device, h, ref)
		if unknown, is := errors.AsType[*infer.UnknownTemplate](err); is {
			return closeAll, cli.Usagef("--template: %w", unknown)
		}
		if err != nil {
			return closeAll, fmt.Errorf("--%s: %w", ref.label, err) // which names the model
		}
		opened = append(opened, engine.Close)
		c.sides = append(c.sides, &side{label: ref.label, engine: engine})
		c.note("%-6s %s, %s, template %s, context %d, in %.1f s", ref.label, engine.Name, engine.Types(),
			engine.Template.Name, engine.Context, time.Since(start).Seconds())
		for _, n := range engine.Notes {
			c.note("%-6s %s", ref.label, n)
		}
	}
	first := c.sides[0].engine // whose authors' sampling both models get, so that only their weights differ
	if err := c.takeSampling(first.Suggested, first.Rules.RepetitionPenalty); err != nil {
		return closeAll, fmt.Errorf("generation_config.json of %s: %w: with --temperature, chat ignores its sampling",
			first.Name, err)
	}
	if c.embedded {
		c.note("%s", scope(refs))
	}
	c.note("device %s, %s", device.Name(), c.settings)
	if c.system != "" {
		c.note("system %s", beginning(c.system))
	}
	if c.log != "" {
		c.note("log    %s, %s", c.log, jsonlPath(c.log))
	}
	return closeAll, nil
}

func (c *chatter) loadOne(ctx context.Context, device *kernels.Device, h *hub.Hub,
	ref modelRef) (*infer.Engine, error) {
	model, adapter, err := models.OpenTuned(ctx, h, ref.name, ref.base)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	defer adapter.Close()
	return infer.Load(ctx, device, model, infer.OpenOptions{DType: infer.DTypes[c.dtype], Adapter: adapter,
		Quantization: infer.Quantizations[c.quantize], Context: c.context, Template: c.template,
		Progress: c.showLoading(ref.name)})
}

// beginning returns a text, or if it is long, its start and its length.
func beginning(text string) string {
	const long = 300
	if runes := []rune(text); len(runes) > long {
		return fmt.Sprintf("%s… (%d characters)", string(runes[:long]), len(runes))
	}
	return text
}

// showLoading returns a function that shows the progress of loading a model, if that takes more than a second, on the
// status line.
func (c *chatter) showLoading(name string) func(done, total int64) {
	var start time.Time
	return func(done, total int64) {
		now := time.Now()
		if start.IsZero() {
			start = now
		}
		if now.Sub(start) >= time.Second && now.Sub(c.drawn) >= frameTime {
			c.drawn = now
			c.status.Draw(fmt.Sprintf("loading %s: %.1f of %.1f MB", name, float64(done)/1e6, float64(total)/1e6))
		}
	}
}

// showDownload shows the progress of a download.
func (c *chatter) showDownload(d hub.Progress) {
	if now := time.Now(); d.Done == d.Total || now.Sub(c.drawn) >= frameTime {
		c.drawn = now
		line := fmt.Sprintf("downloading %s: %.1f of %.1f MB", d.Name, float64(d.Done)/1e6, float64(d.Total)/1e6)
		if c.status.Draw(line); d.Done == d.Total {
			c.note("%s", line)
		}
	}
}

// withSystem prepends a system prompt, if there is one, to a conversation.
func withSystem(system string, messages []chat.Message) []chat.Message {
	if system == "" {
		return messages
	}
	return append([]chat.Message{{Role: "system", Content: system}}, messages...)
}
