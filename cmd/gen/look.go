package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/dataset/output"
	"restyle/internal/cli"
	"restyle/teacher"
)

// showPreview rewrites the first rows and shows them with their checks. It keeps its journal in a temporary directory.
func (g *gen) showPreview(ctx context.Context, t teacher.Teacher) error {
	dir, err := os.MkdirTemp("", "restyle-preview-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	j, err := teacher.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer j.Close()
	r, end, err := g.newRun(t, j)
	if err != nil {
		return err
	}
	defer end()
	if g.minTone > 0 {
		if r.Judge, err = g.pickJudge(ctx); err != nil {
			return err
		}
	}
	r.Rows, r.MaxAsked = g.preview, g.preview
	r.Emit = func(row dataset.Rewritten, c dataset.Certificate) error {
		rule := strings.Repeat("─", 100)
		fmt.Fprintf(g.stdout, "%s\n%s\n\n%s\n\n── before\n%s\n\n── after\n%s\n\n── checks\n",
			rule, g.place(c.SourceName, c.SourceRow), dataset.Question(row.Instruction, row.Input), row.OutputOriginal,
			row.OutputPassiveAggressive)
		for _, k := range c.Checks {
			fmt.Fprintf(g.stdout, "%-4s %s\n", k.ID, k.Value)
		}
		return nil
	}
	r.Refuse = func(row, attempt int, c dataset.Check) {
		if c.ID == teacher.UnreadableRow {
			fmt.Fprintf(g.stdout, "refused by %s: %s\n", c.ID, c.Value)
			return
		}
		src, at := g.src.Origin(row)
		fmt.Fprintf(g.stdout, "%s, attempt %d, refused by %s: %s\n", g.place(src.Name, at), attempt, c.ID, c.Value)
	}
	sum, err := r.Do(ctx)
	g.sayProblems(sum, err)
	return err
}

// place describes, for people, where a row of the source with this name is.
func (g *gen) place(source string, row int) string {
	if len(g.src.List) == 1 {
		source = "the source"
	}
	return fmt.Sprintf("row %d of %s", row, source)
}

// rehearse shows what a run would send, without sending anything.
func (g *gen) rehearse(ctx context.Context, t teacher.Teacher) error {
	r, end, err := g.newRun(t, nil)
	if err != nil {
		return err
	}
	defer end()
	plan, err := r.Plan(ctx)
	if err != nil {
		return err
	}
	if plan.First != nil {
		src, at := g.src.Origin(plan.First.Row.Index)
		fmt.Fprintf(g.stdout, "the first request, for %s:\n", g.place(src.Name, at))
		if g.remote == nil {
			fmt.Fprintf(g.stdout, "%s\n", t.Request(plan.First).Body)
		} else {
			for _, m := range g.remote.Messages(plan.First) {
				fmt.Fprintf(g.stdout, "── %s\n%s\n", m.Role, m.Content)
			}
		}
		fmt.Fprintln(g.stdout)
	}
	g.say("read %s of the source; %d passed the checks", cli.Count(plan.Source, "row"), plan.Fit)
	for _, id := range slices.Sorted(maps.Keys(plan.Unfit)) {
		g.say("  %s: %d unfit", id, plan.Unfit[id])
	}
	g.sayProse(plan.Prose)
	if g.remote != nil {
		in, out := plan.PromptBytes/4, plan.Fit*g.maxTokens
		g.say("about %d prompt tokens (at 4 bytes each) and at most %d completion tokens, without second attempts", in, out)
		if g.priceIn > 0 || g.priceOut > 0 {
			g.say("at most about $%.2f", (float64(in)*g.priceIn+float64(out)*g.priceOut)/1e6)
		}
	}
	return cli.PrintJSON(g.stdout, map[string]any{
		"source_rows": plan.Source, "fit": plan.Fit, "prompt_tokens_estimate": plan.PromptBytes / 4,
	})
}

// showReport checks a finished dataset again.
func (g *gen) showReport(ctx context.Context) error {
	rows, err := dataset.ReadRewritten(ctx, g.out)
	if err != nil {
		return err
	}
	var certs []dataset.Certificate
	if path := dataset.CertificatePath(g.out); exists(path) {
		if certs, err = dataset.ReadCertificates(path); err != nil {
			return err
		}
	}
	hasCode := func(r dataset.Rewritten) bool { return teacher.HasCode(r.OutputOriginal) }
	switch {
	case g.languageGiven:
	case slices.ContainsFunc(rows, hasCode):
		g.language = "" // as the certificates say
	default:
		g.language = teacher.NoLanguage
	}
	report := teacher.NewReport(g.voice, rows, certs, g.language)
	if _, err := report.WriteTo(g.stdout); err != nil {
		return err
	}
	if exists(filepath.Join(g.work, "journal.log")) {
		last, err := teacher.LastRun(g.work)
		if err != nil {
			g.say("warning: %v", err)
		} else if last != nil {
			fmt.Fprintln(g.stdout, "\nthe run that made the dataset")
			teacher.WriteSummary(g.stdout, *last)
		}
	}
	plot := filepath.Join(g.work, "tone.svg")
	if _, err := output.WriteFile(plot, []byte(report.TonePlot())); err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "\nplot: %s\n", plot)
	err = cli.PrintJSON(g.stdout, map[string]any{
		"rows": report.Rows, "clean": report.Clean, "certified": report.Certified, "failed": report.Failed,
	})
	if err != nil {
		return err
	}
	if len(report.Failures) > 0 {
		return fmt.Errorf("%s: %d of %s fail a check, %d have a valid certificate: the report names the first rows that fail",
			g.out, report.Rows-report.Clean, cli.Count(report.Rows, "row"), report.Certified)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
