package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/dataset/output"
	"restyle/hf/hub"
	"restyle/internal/cli"
	"restyle/internal/disk"
	"restyle/internal/expect"
	"restyle/internal/secret"
	"restyle/teacher"
	"restyle/teacher/openai"
	"restyle/voice"
)

// failures are errors that end a run, by name.
var failures = map[string]error{
	"none": nil, "usage": cli.Usagef("--x: bad"), "incomplete": errIncomplete, "plain": errors.New("odd"),
	"canceled": context.Canceled, "unsuitable": &teacher.Unsuitable{}, "cut": &teacher.Unsuitable{Cut: true},
	"different": &teacher.DifferentRun{}, "unavailable": &openai.Unavailable{Reason: "503", Message: "busy"},
	"damage": &openai.Unavailable{Reason: "cut off", Damage: true, Message: "cut"}, "bad row": &dataset.BadRow{},
	"locked": disk.ErrLocked, "no bank": voice.ErrNoBank,
}

var sha = regexp.MustCompile("[0-9a-f]{64}")

// TestRecorded compares what flags, errors and summaries lead to with a recording.
func TestRecorded(t *testing.T) {
	records, err := filepath.Abs("testdata/recorded.txt")
	expect.OK(t, err)
	t.Chdir(t.TempDir())
	for i, name := range []string{"a.jsonl", "b.jsonl"} {
		row := fmt.Sprintf(`{"instruction": "Add %d.", "output": "def f(x):\\n    return x + %d", "extra": 1}`+"\n", i, i)
		expect.OK(t, os.WriteFile(name, []byte(strings.Repeat(row, 3)), 0o600))
	}
	start := func(flags string) (*gen, *strings.Builder, error) {
		var said strings.Builder
		o := defaults()
		f := o.flags(&said, &said)
		g := &gen{options: o, stdout: &said, stderr: &said, key: secret.New("sk-0123456789abcdefghij"),
			status: cli.NewStatusLine(&said)}
		if _, done := f.Parse(strings.Fields(flags)); done {
			return g, &said, errors.New("not parsed")
		}
		o.rowsGiven, o.languageGiven = f.Given("rows"), f.Given("language")
		return g, &said, o.check()
	}
	expect.Recorded(t, records, map[string]func(args ...string) string{
		"check": func(a ...string) string {
			g, said, err := start(a[0])
			if err != nil {
				return said.String() + err.Error()
			}
			return fmt.Sprintf("rows %d, language %s, work %s", g.rows, g.language, g.work)
		},
		"settings": func(a ...string) string { // what is shown about a run, and written into its journal
			g, said, err := start(a[0] + " --dry-run")
			if err != nil {
				return err.Error()
			}
			ctx := t.Context()
			if g.voice, err = voice.Load(g.style); err != nil {
				return err.Error()
			}
			teaching, err := g.pickTeacher(ctx)
			if err != nil {
				return err.Error()
			}
			if g.src, err = g.open(ctx, g.sources...); err != nil {
				return err.Error()
			}
			defer g.src.Close()
			if err := errors.Join(g.survey(ctx), g.chooseLanguage(ctx)); err != nil {
				return err.Error()
			}
			g.showSettings(teaching)
			for _, s := range g.settings(teaching) {
				fmt.Fprintf(said, "%s=%s; ", s.Name, s.Value)
			}
			return sha.ReplaceAllString(said.String(), "SHA")
		},
		"extra": func(a ...string) string {
			g := &gen{options: &options{extra: a[0]}, key: secret.New("sk-0123456789abcdefghij")}
			return g.extraSetting()
		},
		"exit": func(a ...string) string {
			g, said, _ := start("")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if len(a) > 1 {
				cancel()
			}
			err := failures[a[0]]
			if err != nil && len(a) > 1 && a[1] == "wrapped" {
				err = fmt.Errorf("gone: %w", err)
			}
			return fmt.Sprintf("%d %s", g.exit(ctx, err), said)
		},
		"remedy": func(a ...string) string {
			g, _, _ := start(a[1])
			return g.remedy(errors.New(a[0]))
		},
		"line": func(a ...string) string { // the progress line after ten seconds, for a source with the given number of rows
			g, _, _ := start(a[0])
			fmt.Sscan(a[2], &g.sourceRows)
			var s teacher.Summary
			if err := json.Unmarshal([]byte(a[1]), &s); err != nil {
				return err.Error()
			}
			p := &progress{g: g}
			p.line(teacher.Summary{Target: s.Target}, time.Unix(0, 0))
			return p.line(s, time.Unix(10, 0))
		},
		"problems": func(a ...string) string { // what is said at the end
			g, said, _ := start("")
			var s teacher.Summary
			if err := json.Unmarshal([]byte(a[1]), &s); err != nil {
				return err.Error()
			}
			g.sayProblems(s, failures[a[0]])
			return said.String()
		},
		"finish": func(a ...string) string { // the last line
			g, said, _ := start(a[0])
			var s teacher.Summary
			if err := json.Unmarshal([]byte(a[1]), &s); err != nil {
				return err.Error()
			}
			g.voice, g.start = &voice.Style{Name: "v"}, time.Now()
			err := g.finish(teacher.Builtin{}, s, output.Committed{Rows: 3, DataPath: "x.json", CertsPath: "x.jsonl",
				Data: disk.Outcome{State: disk.Replaced, Kept: "x.bak"}})
			return regexp.MustCompile(`"seconds":[0-9.]+`).ReplaceAllString(fmt.Sprint(said, err), `"seconds":N`)
		},
		"download": func(a ...string) string { // of the given number of bytes, just after the last one was shown if "soon"
			g, said, _ := start("")
			d := hub.Progress{Name: "x"}
			fmt.Sscan(a[0], &d.Done, &d.Total)
			if len(a) > 1 {
				g.drawn = time.Now().Add(time.Hour)
			}
			drawn := g.drawn
			g.showDownload(d)
			return fmt.Sprint(said, g.drawn.Equal(drawn))
		},
		"card": func(a ...string) string {
			g, _, err := start(a[0] + " --card card.md")
			if err != nil {
				return err.Error()
			}
			if g.voice, err = voice.Load(g.style); err != nil {
				return err.Error()
			}
			teaching, err := g.pickTeacher(t.Context())
			if err != nil {
				return err.Error()
			}
			if g.src, err = g.open(t.Context(), g.sources...); err != nil {
				return err.Error()
			}
			defer g.src.Close()
			if err := g.writeCard(teaching, teacher.Summary{Source: 9, Accepted: 7}); err != nil {
				return err.Error()
			}
			return sha.ReplaceAllString(expect.Read(t, "card.md"), "SHA")
		},
	})
}
