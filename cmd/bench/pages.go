package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"restyle/cmd/bench/results"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/plot"
	"restyle/kernels"
	"restyle/kernels/cpu"
)

// pageOptions are the flags of measurements that write pages.
type pageOptions struct {
	device, out, note string
	threads           int
	maxTime           time.Duration

	command string // the command line
}

func (o *pageOptions) add(f *cli.Flags) {
	f.Group("Output")
	f.Add(&o.out, "out", "`directory` for results.json, CSV files, pictures and README.md; rows that its "+
		"results.json has are not measured again")
	f.Add(&o.note, "note", "`sentence` about the machine for the page, such as what else ran on it")

	f.Group("Device")
	f.Add(&o.device, "device", cli.DeviceHelp)
	f.Add(&o.threads, "threads", threadsHelp)
	f.Add(&o.maxTime, "max-time", "leave out what takes longer than this for a single run; the page says so")
}

// newPageOptions returns the defaults.
func newPageOptions(args []string) pageOptions {
	return pageOptions{device: "auto", maxTime: 20 * time.Second,
		command: "go run ./cmd/bench " + quoted(args)}
}

// checkPage checks the flags.
func (o *pageOptions) checkPage() error {
	if info, err := os.Stat(o.out); err == nil && !info.IsDir() {
		return fmt.Errorf("--out %s: not a directory: name another", o.out)
	}
	if err := cmp.Or(cli.CheckThreads(o.threads), cli.CheckDevice(o.device)); err != nil {
		return err
	}
	if o.maxTime <= 0 {
		return fmt.Errorf("--max-time %v: must be more than 0", o.maxTime)
	}
	return nil
}

// quoted returns arguments as a shell reads them.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = cli.ShellQuote(a)
	}
	return strings.Join(words, " ")
}

// A measurement is a command that measures on a device and writes pages.
type measurement interface {
	flags(stdout, stderr io.Writer) *cli.Flags
	check() error // of the flags
	kernelOptions() kernels.Options
	measure(ctx context.Context, s *session, d *kernels.Device) error
}

// runMeasurement runs the measurement of a name and returns the exit code. o has its flags for pages.
func runMeasurement(ctx context.Context, name string, m measurement, o *pageOptions, args []string,
	stdout, stderr io.Writer) int {
	if code, done := m.flags(stdout, stderr).Parse(args); done {
		return code
	}
	if err := cmp.Or(o.checkPage(), m.check()); err != nil {
		fmt.Fprintf(stderr, "bench %s: %v\nsee bench %[1]s -h\n", name, err)
		return cli.Usage
	}
	unlock, err := o.lock()
	if err != nil {
		return o.exit(ctx, name, err, stderr)
	}
	defer unlock()
	d, err := o.open(m.kernelOptions(), stderr)
	if err != nil {
		return o.exit(ctx, name, err, stderr)
	}
	s, err := o.begin(d, stdout, stderr)
	if err == nil {
		if err = m.measure(ctx, s, d); err == nil {
			err = s.finish()
		}
		s.status.Clear()
	}
	return o.exit(ctx, name, errors.Join(err, d.Close()), stderr)
}

// lock keeps other measurements from --out until unlock is called or the process ends: each would write its own rows
// over the other's.
func (o *pageOptions) lock() (unlock func(), err error) {
	if o.out == "" {
		return func() {}, nil
	}
	if err := disk.MakeDir(o.out, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	f, err := disk.Lock(filepath.Join(o.out, "results.lock"))
	switch {
	case errors.Is(err, disk.ErrNoLocks):
		return func() {}, nil
	case errors.Is(err, disk.ErrLocked):
		return nil, fmt.Errorf("--out: %w: wait for it, or name another directory", err)
	case err != nil:
		return nil, fmt.Errorf("--out: %w", err)
	}
	return func() { _ = f.Remove() }, nil // a file that stays blocks no one
}

// A session is a run of measurements that write to one book.
type session struct {
	*results.Book
	o      pageOptions
	begun  []string // names of the tables that this session measures
	stdout io.Writer
	status *cli.StatusLine
}

// open opens a device for a measurement. Its notes are printed once.
func (o *pageOptions) open(more kernels.Options, notes io.Writer) (*kernels.Device, error) {
	more.Threads = o.threads
	d, err := kernels.Open(o.device, more)
	if err != nil {
		return nil, err
	}
	for _, n := range d.Notes() {
		fmt.Fprintf(notes, "bench: %s\n", n)
	}
	return d, nil
}

// begin opens the book of a session for the machine of a device.
func (o *pageOptions) begin(d *kernels.Device, stdout, stderr io.Writer) (*session, error) {
	m := results.Machine{Device: d.Name(), CPU: processor(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Version: cli.Version(), Memory: int64(d.Capacity()), Note: o.note}
	if name := d.Model(); name != "" {
		m.Device = name
	}
	if d.IsCPU() {
		m.Level, m.Threads = d.Level(), cpu.Threads()
	}
	b, kept, err := results.Open(o.out, m)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if kept != "" {
		fmt.Fprintf(stderr, "bench: the results of another machine, version or note are now in %s\n", kept)
	}
	return &session{Book: b, o: *o, stdout: stdout, status: cli.NewStatusLine(cli.Raw(stderr))}, nil
}

// table starts or continues a table.
func (s *session) table(t results.Table) (*results.Table, error) {
	t.Command = s.o.command
	s.begun = append(s.begun, t.Name)
	table, kept, err := s.Begin(t)
	if kept != "" {
		fmt.Fprintf(s.status, "bench: %s: the rows there have other settings: measuring all again; "+
			"the old rows are in %s\n", t.Name, kept)
	}
	return table, err
}

// finish writes the pages, and prints what they say in words.
func (s *session) finish() error {
	s.status.Clear()
	for _, name := range s.begun {
		for _, w := range section(s.Table(name).Quiet()).Words {
			if _, err := fmt.Fprintln(s.stdout, w); err != nil {
				return err
			}
		}
	}
	if s.o.out == "" {
		return nil
	}
	if err := writePages(s.Book); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.stdout, "%s has the tables and the pictures: open its README.md\n", s.o.out)
	return err
}

// writePages writes the pages of a book.
func writePages(b *results.Book) error {
	device := b.Machine.Device
	if device == "cpu" {
		device = b.Machine.CPU
	}
	ordered := *b
	ordered.Tables = slices.Clone(b.Tables)
	slices.SortStableFunc(ordered.Tables, func(x, y *results.Table) int {
		return slices.Index(pageOrder, x.Name) - slices.Index(pageOrder, y.Name)
	})
	return ordered.Pages("Measurements on "+device, section)
}

// pageOrder is the order of tables on a page: what a user notices first, and the many single operations last.
var pageOrder = []string{"infer", "train", "train-curve", "layer", "kernels", "layer-parts"}

const aboutPage = `
bench page writes the pages, pictures and CSV files of a directory again, from its results.json.

  bench page docs/bench/mine`

func runPage(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := cli.New("bench page", aboutPage, stdout, stderr)
	dirs, code, done := flags.ParsePaths(args)
	if done {
		return code
	}
	if len(dirs) != 1 {
		fmt.Fprintf(stderr, "bench page: %d directories: name one\nsee bench page -h\n", len(dirs))
		return cli.Usage
	}
	f, err := results.Load(dirs[0])
	if err == nil {
		err = writePages(&results.Book{File: *f, Dir: dirs[0]})
	}
	return (&pageOptions{out: dirs[0]}).exit(ctx, "page", err, stderr)
}

// section returns what pages say about a table.
func section(t *results.Table) results.Section {
	if f, ok := sections[t.Name]; ok {
		return f(t)
	}
	return results.Section{}
}

// sections has the words and pictures of each table.
var sections = map[string]func(t *results.Table) results.Section{
	"kernels":     kernelSection,
	"infer":       inferSection,
	"layer":       layerSection,
	"train":       trainSection,
	"train-curve": curveSection,
}

// processor returns the name of the machine's processor, as far as Linux knows it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return fmt.Sprintf("%s, %s", strings.TrimSpace(value), cli.Count(runtime.NumCPU(), "core"))
		}
	}
	return cli.Count(runtime.NumCPU(), "core")
}

// exit prints how a measurement ended and returns its exit code.
func (o *pageOptions) exit(ctx context.Context, name string, err error, stderr io.Writer) int {
	var usage *cli.UsageError
	switch {
	case err == nil: // complete, also if Ctrl-C came at the end
		return cli.Done
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "bench %s: %v\nsee bench %[1]s -h\n", name, usage)
		return cli.Usage
	case ctx.Err() != nil && o.out == "":
		fmt.Fprintf(stderr, "bench %s: stopped; nothing is kept without --out\n", name)
		return cli.Failed
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "bench %s: stopped; with the same --out it measures what is missing\n", name)
		return cli.Failed
	}
	fmt.Fprintf(stderr, "bench %s: %v\n", name, err)
	return cli.Failed
}

// attempt calls f. An operation that lacks memory panics on a CPU; attempt returns that as an error.
func attempt(f func() error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = errors.Join(err, fmt.Errorf("%v", why))
		}
	}()
	return f()
}

// curveSection draws the losses of all modes.
func curveSection(t *results.Table) (s results.Section) {
	c := &plot.Chart{Title: "Loss of each step", Subtitle: "on the same batches; where the lines part, see Training",
		X: plot.Axis{Label: "step"}, Y: plot.Axis{Label: "loss"}}
	at := map[string]int{}
	for _, r := range t.Rows {
		mode := r.Text("mode")
		if _, there := at[mode]; !there {
			at[mode] = len(c.Series)
			c.Series = append(c.Series, plot.Series{Name: mode, Dashed: len(c.Series)%2 == 1})
		}
		x := &c.Series[at[mode]]
		x.Points = append(x.Points, plot.Point{X: r.Number("step"), Y: r.Number("loss")})
	}
	if len(c.Series) > 0 {
		s.Pictures = []results.Picture{{Name: "train-curve", Alt: c.Title, SVG: c.SVG()}}
	}
	return s
}

// plotted is a series of a picture over numbers of tokens.
type plotted struct {
	name   string
	points [][2]float64
	dashed bool
}

// curves returns a picture with the series of each group.
func curves(title, y string, logY bool, groups []string, series func(group string) []plotted) *plot.Chart {
	c := &plot.Chart{Title: title, X: plot.Axis{Label: "tokens of context", Log: true},
		Y: plot.Axis{Label: y, Log: logY, Zero: !logY}}
	for _, g := range groups {
		for _, p := range series(g) {
			s := plot.Series{Name: p.name, Dashed: p.dashed}
			for _, at := range p.points {
				s.Points = append(s.Points, plot.Point{X: at[0], Y: at[1]})
			}
			if len(s.Points) > 0 {
				c.Series = append(c.Series, s)
			}
		}
	}
	return c
}

// maxSeconds is the largest --seconds. A larger one does not fit in a time.Duration.
const maxSeconds = 1_000_000

// checkSeconds returns an error if a value of --seconds is out of range.
func checkSeconds(seconds float64) error {
	if !(seconds > 0 && seconds <= maxSeconds) {
		return fmt.Errorf("--seconds %v: must be more than 0 and at most %d", seconds, maxSeconds)
	}
	return nil
}

// checkTimings returns an error if --iterations or --seconds allow no timing.
func checkTimings(iterations int, seconds float64) error {
	if iterations < 1 {
		return fmt.Errorf("--iterations %d: must be at least 1", iterations)
	}
	return checkSeconds(seconds)
}
