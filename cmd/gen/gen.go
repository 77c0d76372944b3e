package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"restyle/data"
	"restyle/dataset"
	"restyle/dataset/output"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/secret"
	"restyle/teacher"
	"restyle/teacher/openai"
	"restyle/voice"
)

// gen is one invocation of the command.
type gen struct {
	*options
	key, baseKey   secret.Secret // OPENAI_API_KEY; what the servers of --base-url get of it: all of it or nothing
	stdout, stderr io.Writer
	status         *cli.StatusLine // stderr writes to it
	start          time.Time
	drawn          time.Time // when a download's progress was last shown

	voice      *voice.Style
	src        *dataset.Sources
	counts     []int           // rows of each source; -1 if not known
	sourceRows int             // that will be read if all are needed; -1 if not known
	remote     *teacher.Remote // nil for the built-in rewriter
	own        *atHome         // the server of --teacher-model, nil if there is none or it is not started
}

func (g *gen) say(format string, args ...any) { fmt.Fprintf(g.stderr, format+"\n", args...) }

func (g *gen) do(ctx context.Context) (err error) {
	if g.version {
		fmt.Fprintln(g.stdout, "gen", cli.Version())
		return nil
	}
	if g.voice, err = voice.Load(g.style); err != nil {
		return err
	}
	if g.report {
		return g.showReport(ctx)
	}
	t, err := g.pickTeacher(ctx)
	if g.own != nil {
		defer g.own.stop()
		ctx = g.own.watch(ctx)
	}
	if err != nil {
		return err
	}
	if g.src, err = g.open(ctx, g.sources...); err != nil {
		return err
	}
	defer g.src.Close()
	if err := g.survey(ctx); err != nil {
		return err
	}
	if err := g.chooseLanguage(ctx); err != nil {
		return err
	}
	g.showSettings(t)
	switch {
	case g.dryRun:
		return g.rehearse(ctx, t)
	case g.preview > 0:
		return g.showPreview(ctx, t)
	}
	return g.make(ctx, t)
}

func (g *gen) open(ctx context.Context, specs ...string) (*dataset.Sources, error) {
	columns, err := dataset.ParseColumns(g.columns)
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	h := hub.FromEnv()
	h.Progress = g.showDownload
	h.Waiting = func(message string) { g.say("%s", message) }
	return dataset.OpenAll(ctx, specs, dataset.Options{
		Split: g.split, Columns: columns, Starter: data.Starter, Hub: h, SkipBad: g.skipBad, Apart: g.apart(),
	})
}

// survey finds out how many rows the sources have, and draws the sample. It reads local files that do not state their
// number of rows to their ends, which finds damage before any request is paid for. It skips files of the hub, which are
// downloaded only as far as they are needed, unless a sample needs their number of rows.
func (g *gen) survey(ctx context.Context) error {
	paid := g.remote != nil && g.preview == 0
	needed := g.src.Rows() < 0 && (paid || g.rows == 0 || g.sample > 0)
	for i, src := range g.src.List {
		n := src.Rows()
		if n < 0 && needed && (g.sample > 0 || dataset.LocalPath(g.sources[i]) != "") {
			var err error
			if n, err = g.count(ctx, g.sources[i]); err != nil {
				return err
			}
		}
		g.counts = append(g.counts, n)
		g.sourceRows += n
	}
	if slices.Contains(g.counts, -1) {
		g.sourceRows = -1
	}
	if g.sample > 0 {
		if g.sample > g.sourceRows {
			g.say("warning: --sample %d: there are only %s", g.sample, cli.Count(g.sourceRows, "row"))
		}
		g.src.Sample(g.sample, g.sourceRows, uint64(g.seed))
		g.sourceRows = min(g.sample, g.sourceRows)
	}
	return nil
}

// count reads a source to its end and returns the number of its rows.
func (g *gen) count(ctx context.Context, spec string) (int, error) {
	src, err := g.open(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	for n := 0; ; n++ {
		_, err := src.Next()
		if err == io.EOF {
			return n, nil
		}
		if bad, ok := errors.AsType[*dataset.BadRow](err); err != nil && !(ok && bad.Skipped) {
			return 0, err
		}
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
	}
}

// each joins what f returns for every source.
func (g *gen) each(f func(*dataset.Source) string) string {
	var parts []string
	for _, src := range g.src.List {
		parts = append(parts, f(src))
	}
	return strings.Join(parts, "; ")
}

// settings returns what the result depends on besides the source and the teacher's answers. --skip-bad is not among
// them: a run that ends at a row that cannot be read continues with it.
func (g *gen) settings(t teacher.Teacher) []teacher.Setting {
	s := []teacher.Setting{
		{Name: "source", Value: g.each(func(s *dataset.Source) string { return s.Name })},
		{Name: "revision", Value: g.each(func(s *dataset.Source) string { return s.Revision })},
		{Name: "split", Value: g.split},
		{Name: "columns", Value: g.each((*dataset.Source).Describe)},
		{Name: "rows", Value: strconv.Itoa(g.rows)},
		{Name: "teacher", Value: t.Name()},
		{Name: "style", Value: g.voice.Name},
		{Name: "style sha256", Value: g.voice.SHA256},
		{Name: "seed", Value: strconv.FormatInt(g.seed, 10)},
		{Name: "comments", Value: strconv.FormatBool(g.comments)},
		{Name: "python", Value: g.python},
		{Name: "judge", Value: g.judge},
		{Name: "min tone", Value: strconv.Itoa(g.minTone)},
		{Name: "sample", Value: strconv.Itoa(g.sample)},
		{Name: "language", Value: g.language},
		{Name: "fold system", Value: strconv.FormatBool(g.foldSystem)},
	}
	if g.remote != nil {
		s = append(s,
			teacher.Setting{Name: "temperature", Value: strconv.FormatFloat(g.temperature, 'g', -1, 64)},
			teacher.Setting{Name: "max tokens", Value: strconv.Itoa(g.maxTokens)},
			teacher.Setting{Name: "extra", Value: g.extraSetting()})
	}
	if g.own != nil {
		s = append(s, teacher.Setting{Name: "weights", Value: g.own.digest})
	}
	return s
}

// secretName matches the names of fields that hold keys.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|auth`)

// extraSetting returns --extra for the journal: as given, but with a hash in place of each value that may be a key.
func (g *gen) extraSetting() string {
	hidden := false
	var hide func(name string, v any) any
	hide = func(name string, v any) any {
		switch v := v.(type) {
		case string:
			if secretName.MatchString(name) || len(v) >= 16 && !strings.ContainsAny(v, " \t\n") || g.key.Scrub(v) != v {
				hidden = true
				sum := sha256.Sum256([]byte(v))
				return "sha256 " + hex.EncodeToString(sum[:8])
			}
		case []any:
			for i := range v {
				v[i] = hide(name, v[i])
			}
		case map[string]any:
			for field := range v {
				v[field] = hide(field, v[field])
			}
		}
		return v
	}
	var extra any
	if json.Unmarshal([]byte(g.extra), &extra) != nil {
		return g.extra // empty
	}
	shown, err := json.Marshal(hide("", extra))
	if err != nil || !hidden {
		return g.extra
	}
	return string(shown)
}

func (g *gen) showSettings(t teacher.Teacher) {
	for i, src := range g.src.List {
		rows := ""
		if n := g.counts[i]; n >= 0 {
			rows = ", " + cli.Count(n, "row")
		}
		g.say("source      %s (%.12s%s), %s", src.Name, src.Revision, rows, src.Describe())
		if unused := src.Unused(); len(unused) > 0 {
			g.say("            not used: %s", cli.Some(unused))
		}
	}
	who := "the built-in rewriter: rules and a phrase bank, no language model"
	if g.remote != nil {
		who = fmt.Sprintf("%s, temperature %g, at most %d tokens", g.remote.Model, g.temperature, g.maxTokens)
		if len(g.remote.Endpoints) > 0 {
			who += ", at " + strings.Join(g.remote.Endpoints, " and ")
		}
	}
	g.say("teacher     %s", who)
	g.say("style       %s: %s", g.voice.Name, g.voice.About)
	goal := strconv.Itoa(g.rows)
	if g.rows == 0 {
		goal = "all"
	}
	extras := ""
	for _, e := range []struct {
		on   bool
		text string
	}{
		{g.sample > 0, fmt.Sprintf("of %s drawn", cli.Count(g.sourceRows, "row"))},
		{g.comments, "comments in the code"},
		{g.language != teacher.Python && g.language != teacher.NoLanguage, "code in language: " + g.language},
		{g.language == teacher.NoLanguage, "answers in prose"},
		{g.python != "", "sources parsed by " + g.python},
		{g.judge != "", "judged by " + g.judge},
		{g.minTone > 0, fmt.Sprintf("tone at least %d", g.minTone)},
	} {
		if e.on {
			extras += ", " + e.text
		}
	}
	g.say("rows        %s, seed %d%s", goal, g.seed, extras)
	g.say("out         %s, journal in %s", g.out, g.work)
}

// openJournal opens the journal and records the run in it.
func (g *gen) openJournal(t teacher.Teacher) (*teacher.Journal, error) {
	if g.restart {
		kept, err := teacher.BackUp(g.work)
		if err != nil {
			return nil, err
		}
		if kept != "" {
			g.say("renamed the earlier journal to %s", kept)
		}
	}
	j, err := teacher.OpenJournal(g.work)
	if err != nil {
		return nil, err
	}
	if j.Torn > 0 {
		g.say("the journal's last line is incomplete, as after a kill: dropped %s", cli.Count(j.Torn, "byte"))
	}
	if j.Damaged > 0 {
		g.say("warning: skipped %s of the journal with wrong checksums; gen asks for these answers again",
			cli.Count(j.Damaged, "line"))
	}
	var endpoints []string
	if g.remote != nil {
		endpoints = g.remote.Endpoints
	}
	all, resumed, err := j.Start(g.settings(t), endpoints)
	if err != nil {
		j.Close()
		return nil, err
	}
	if g.remote != nil {
		g.remote.Endpoints = all
	}
	if resumed {
		g.say("resuming with %s from the journal", cli.Count(j.Answers(), "answer"))
	}
	return j, nil
}

// newRun returns the run that the flags describe, and a function that ends it.
func (g *gen) newRun(t teacher.Teacher, j *teacher.Journal) (r *teacher.Run, end func(), err error) {
	r = &teacher.Run{
		Style: g.voice, Teacher: t, Source: g.src, Journal: j, Seed: uint64(g.seed), Rows: g.rows, Comments: g.comments,
		Language: g.language,
	}
	end = func() {}
	if g.python != "" {
		p, err := teacher.StartCPython(g.python)
		if err != nil {
			return nil, nil, err
		}
		r.Parse, end = p.Parse, func() { p.Close() }
	}
	return r, end, nil
}

// make makes the dataset, the main job of gen.
func (g *gen) make(ctx context.Context, t teacher.Teacher) (err error) {
	// The heap consists mostly of what is known about the accepted rows, which stays: the default would let it double.
	defer debug.SetGCPercent(debug.SetGCPercent(30))
	out, err := output.Create(g.out)
	if err != nil {
		return err
	}
	defer out.Discard()
	rejects, err := output.CreateRejects(dataset.RejectsPath(g.out))
	if err != nil {
		return err
	}
	defer rejects.Discard()
	j, err := g.openJournal(t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	if g.ingest != "" {
		if err := g.takeBatch(j); err != nil {
			return err
		}
	}
	r, end, err := g.newRun(t, j)
	if err != nil {
		return err
	}
	defer end()
	if g.judge != "" {
		if r.Judge, err = g.pickJudge(ctx); err != nil {
			return err
		}
	}
	r.Emit, r.Reject = out.Write, rejects.Write
	pending := func(string, []byte) error { return nil }
	var batch *batchFile
	if g.emit != "" {
		if batch, err = createBatch(g.emit); err != nil {
			return err
		}
		defer batch.Discard()
		pending = batch.add
		r.Spare = max(8, g.rows/10)
	}
	r.Pending = pending
	sum, err := g.answer(ctx, r, j)
	if err != nil {
		g.savePartial(out, sum)
		return err
	}
	if sum.Pending > 0 {
		g.savePartial(out, sum)
		return g.waitForBatch(batch, sum)
	}
	if err := g.commitRejects(rejects); err != nil {
		return err
	}
	if sum.Accepted == 0 {
		return errors.Join(j.Finish(sum), errors.New("no row passed the checks, so gen wrote no dataset: "+
			"--preview 3 shows what happens to the first rows; the journal keeps the answers, and --restart asks again"))
	}
	done, err := out.Commit()
	if err != nil {
		return err
	}
	g.removePartial()
	if err := j.Finish(sum); err != nil {
		return err
	}
	if sum.Accepted < g.rows {
		g.say("warning: made only %d of %s: the source has no more", sum.Accepted, cli.Count(g.rows, "row"))
	}
	g.say("%s: %s, %s", done.DataPath, cli.Count(done.Rows, "row"), done.Data)
	g.say("%s: %s", done.CertsPath, done.Certificates)
	if g.card != "" {
		if err := g.writeCard(t, sum); err != nil {
			return err
		}
	}
	return g.finish(t, sum, done)
}

// commitRejects puts the rejected rows next to the output.
func (g *gen) commitRejects(rejects *output.Rejects) error {
	outcome, err := rejects.Commit()
	if err != nil {
		return err
	}
	path := dataset.RejectsPath(g.out)
	if counts := rejects.String(); counts != "" {
		g.say("%s: %s; rejected rows by check: %s", path, outcome, counts)
	} else if outcome.Kept != "" {
		g.say("renamed the earlier %s to %s: no row was rejected", path, outcome.Kept)
	}
	return nil
}

// answer does the run, shows its progress, and prints a summary.
func (g *gen) answer(ctx context.Context, r *teacher.Run, j *teacher.Journal) (teacher.Summary, error) {
	bar := g.startProgress(r)
	sum, err := r.Do(ctx)
	bar.stop()
	g.sayProblems(sum, err)
	if err == nil {
		err = j.Err()
	}
	var unavailable *openai.Unavailable
	if errors.As(err, &unavailable) {
		err = fmt.Errorf("%w\nrows without an answer: %d", err, sum.Waiting)
	}
	return sum, err
}

// finish prints the result line, the last on stdout.
func (g *gen) finish(t teacher.Teacher, sum teacher.Summary, done output.Committed) error {
	return cli.PrintJSON(g.stdout, struct {
		Out          string   `json:"out"`
		Rows         int      `json:"rows"`
		Outcome      string   `json:"outcome"`
		Certificates string   `json:"certificates"`
		Teacher      string   `json:"teacher"`
		Style        string   `json:"style"`
		Seconds      float64  `json:"seconds"`
		Cost         *float64 `json:"cost_usd,omitempty"`
		teacher.Summary
	}{done.DataPath, done.Rows, done.Data.String(), done.CertsPath, t.Name(), g.voice.Name,
		seconds(time.Since(g.start)), g.cost(sum), sum})
}

// sayProblems prints a summary of the run, and what the user should know about its answers.
func (g *gen) sayProblems(sum teacher.Summary, err error) {
	teacher.WriteSummary(g.stderr, sum)
	g.sayProse(sum.Prose)
	if unsuitable, ok := errors.AsType[*teacher.Unsuitable](err); sum.Thoughts > 0 && !(ok && unsuitable.Cut) {
		g.say("warning: %s spent all of their tokens on thoughts: %s", cli.Count(sum.Thoughts, "answer"), g.lessThought())
	}
	if sum.Estimated > 0 {
		g.say("note: the server did not count the tokens of %s; gen estimates them at 4 bytes each",
			cli.Count(sum.Estimated, "answer"))
	}
	g.sayRetries()
}

// lessThought returns which flags help if thoughts take all of an answer's tokens.
func (g *gen) lessThought() string {
	return fmt.Sprintf("allow more than --max-tokens %d, or turn thinking off, as many servers do by "+
		`--extra '{"chat_template_kwargs":{"enable_thinking":false}}'`, g.maxTokens)
}

// sayRetries prints how often requests were retried, by reason, which servers failed, and whose answers deviate from
// OpenAI's format.
func (g *gen) sayRetries() {
	if g.remote == nil || g.remote.Pool == nil {
		return
	}
	st := g.remote.Pool.Stats()
	var kinds []string
	for _, reason := range slices.Sorted(maps.Keys(st.Retries)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", reason, st.Retries[reason]))
	}
	if len(kinds) > 0 {
		g.say("retries: %s; the first, %s", strings.Join(kinds, ", "), st.FirstRetry)
	}
	for _, e := range st.Endpoints {
		if len(e.Deviations) > 0 {
			g.say("note: the answers of %s deviate from OpenAI's format: %s (accepted)", e.URL,
				strings.Join(e.Deviations, ", "))
		}
		if e.State != "alive" {
			g.say("warning: %s is %s: %s", e.URL, e.State, e.Reason)
		}
	}
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// cost returns what the tokens cost in US dollars, including the tokens of earlier parts of the run, or nil if no
// prices were given.
func (g *gen) cost(sum teacher.Summary) *float64 {
	if g.priceIn == 0 && g.priceOut == 0 {
		return nil
	}
	c := (float64(sum.In+sum.ReplayedIn)*g.priceIn + float64(sum.Out+sum.ReplayedOut)*g.priceOut) / 1e6
	return &c
}

// savePartial writes the rows that were accepted before the run stopped, unless an earlier part of the run saved more.
func (g *gen) savePartial(out *output.Writer, sum teacher.Summary) {
	if sum.Accepted == 0 || sum.Accepted < g.partialRows() {
		return
	}
	g.removePartial()
	if done, err := out.CommitAs(g.partial()); err != nil {
		g.say("warning: cannot write the rows made so far to %s: %v; the journal has their answers", g.partial(), err)
	} else {
		g.say("%s so far: %s", cli.Count(done.Rows, "row"), done.DataPath)
	}
}

// partial returns the path of the rows made so far, next to the output.
func (g *gen) partial() string {
	ext := filepath.Ext(g.out)
	return strings.TrimSuffix(g.out, ext) + ".partial" + ext
}

// partialRows returns how many rows an earlier part of the run saved.
func (g *gen) partialRows() int {
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(g.partial()))
	if err != nil {
		return 0
	}
	return len(certs)
}

// removePartial deletes the rows that an earlier part of the run saved; the present part also has them.
func (g *gen) removePartial() {
	os.Remove(g.partial())
	os.Remove(dataset.CertificatePath(g.partial()))
}

// writeCard writes the dataset card that --card asks for.
func (g *gen) writeCard(t teacher.Teacher, sum teacher.Summary) error {
	how, title := "the code was taken out first and put back byte for byte", "answers to programming questions"
	tags := []string{"code", "style-transfer", "synthetic"}
	if g.language == teacher.NoLanguage {
		how, title, tags = "its numbers, names, links and quotations were looked for in the new text", "answers", tags[1:]
	}
	made := fmt.Sprintf("Each answer was rewritten in the style %q by %s; "+how+". "+
		"Of %d source rows %d were accepted; every accepted row passed the checks that its certificate lists.",
		g.voice.Name, t.Name(), sum.Source, sum.Accepted)
	if g.remote == nil {
		made += " The built-in rewriter is rules and a phrase bank, not a language model."
	}
	c := output.Card{
		Title: g.voice.Name + " " + title, Language: []string{"en"}, Tags: tags, Rows: sum.Accepted,
		Source: g.each(func(s *dataset.Source) string { return fmt.Sprintf("%s, revision %s", s.Name, s.Revision) }),
		Made:   made,
	}
	if slices.Equal(g.sources, []string{dataset.StarterSpec}) {
		c.License = "mit"
	}
	outcome, err := output.WriteFile(g.card, []byte(c.Markdown()))
	if err == nil {
		g.say("%s: %s", g.card, outcome)
	}
	return err
}
