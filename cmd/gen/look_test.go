package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/teacher"
)

// TestPreviewReadsNoMore checks that a preview asks about as many rows as it shows, whatever becomes of them, and does
// not read the source to its end, as a run does before it pays for anything.
func TestPreviewReadsNoMore(t *testing.T) {
	s := newServer(t, func(c call) bool { c.stream("no tag", "stop"); return true })
	source := tasks(t, 40)
	args := []string{"--base-url", s.base(), "--model", "fake", "--out", newFolder(t).out}
	o := must(t, cli.Done, append(args, "--source", source, "--preview", "3")...)
	if calls, _ := s.counts(); calls != 6 || strings.Count(o.stdout, "refused by A1") != 6 {
		t.Errorf("%d requests for 3 rows with 2 attempts each: %v", calls, o)
	}
	b, err := os.ReadFile(source)
	expect.OK(t, err)
	broken := expect.File(t, "broken.json", strings.TrimSuffix(strings.TrimSpace(string(b)), "]"))
	must(t, cli.Done, append(args, "--source", broken, "--preview", "1")...)
	calls, _ := s.counts()
	must(t, cli.Failed, append(args, "--source", broken, "--rows", "1")...)
	if now, _ := s.counts(); now != calls {
		t.Errorf("%d requests before the damage was found", now-calls)
	}
}

// TestDryRunPrices checks that either price is enough for an estimate, and that without prices there is none.
func TestDryRunPrices(t *testing.T) {
	for prices, wants := range map[string]bool{"": false, "--price-in 2": true, "--price-out 2": true,
		"--price-in 2 --price-out 2": true} {
		o := must(t, cli.Done, append([]string{"--source", tasks(t, 20), "--base-url", "http://127.0.0.1:1/v1", "--model",
			"fake", "--out", newFolder(t).out, "--dry-run"}, strings.Fields(prices)...)...)
		if strings.Contains(o.stderr, "at most about $") != wants {
			t.Errorf("%q: %v", prices, o)
		}
	}
}

// TestProgressTotal checks how many rows the bar is for: the requested rows, otherwise the rows of the source.
func TestProgressTotal(t *testing.T) {
	for rows, total := range map[int]int{0: 9, 3: 3} {
		g := &gen{options: &options{}, sourceRows: 9, status: &cli.StatusLine{}}
		p := g.startProgress(&teacher.Run{Rows: rows})
		close(p.quit)
		<-p.ended
		if p.total != total || p.sum.Target != rows {
			t.Errorf("%d rows: a bar of %d", rows, p.total)
		}
	}
}

// TestEmitKeepsOldBatch writes a batch over another one, and gen prints what that is called now. A batch has a tenth
// of the rows to spare, at least eight.
func TestEmitKeepsOldBatch(t *testing.T) {
	f := newFolder(t)
	file := f.dir + "/requests.jsonl"
	source := fitTasks(t, 120)
	for _, c := range []struct {
		old            string
		renamed        bool
		rows, requests int
	}{{"", false, 2, 10}, {"another batch\n", true, 89, 97}, {"", true, 100, 110}} {
		if c.old != "" {
			expect.OK(t, os.WriteFile(file, []byte(c.old), 0o600))
		}
		o := must(t, cli.Done, "--source", source, "--rows", fmt.Sprint(c.rows), "--out", f.out, "--model", "fake",
			"--emit-batch", file, "--restart")
		if n := strings.Count(expect.Read(t, file), "\n"); n != c.requests || lastLine(t, o)["requests"] != float64(n) {
			t.Errorf("%d requests for %d rows: %v", n, c.rows, o)
		}
		if strings.Contains(o.stderr, "renamed the old "+file+" to ") != c.renamed {
			t.Errorf("%q: %v", c.old, o)
		}
	}
}
