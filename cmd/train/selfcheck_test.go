package main

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/cli"
	"restyle/opcheck"
	"restyle/trainer/report"
)

// TestSelfcheck checks that a correct device passes, with a line for each part; with RESTYLE_LONG in fp32 as well. The
// tests of opcheck check all operations.
func TestSelfcheck(t *testing.T) {
	checked = func() []*opcheck.Case { return slices.Concat(opcheck.Of("rmsnorm"), opcheck.Of("softmax")) }
	timed = 0
	t.Cleanup(func() { checked, timed = opcheck.All, time.Second })
	types := []string{"bf16", "fp32"}
	if os.Getenv("RESTYLE_LONG") == "" {
		types = types[:1]
	}
	for _, dtype := range types {
		var out, errs strings.Builder
		if code := run(context.Background(), []string{"--selfcheck", "--device", "cpu", "--dtype", dtype}, &out, &errs,
			nil); code != cli.Done {
			t.Fatalf("%d: %s%s", code, out.String(), errs.String())
		}
		for _, want := range []string{"device      cpu", " runs of 2 operations against float64", "training    8 steps",
			"resumed it ends with the same bits", "answers     ", "speed       copy ",
			"product in " + dtype, "all is right"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("nothing says %q:\n%s", want, out.String())
			}
		}
	}
}

// TestSelfcheckFinds checks that a device that learns something else fails, and one that cannot repeat what it does.
func TestSelfcheckFinds(t *testing.T) {
	bits := []byte{1, 2}
	for _, c := range []struct {
		loss    report.Number
		resumed []byte
		wrong   string
	}{
		{learned, bits, ""},
		{learned * (1 + 0.9*learnedWithin), bits, ""},
		{learned * (1 + 1.1*learnedWithin), bits, "does not learn what it should"},
		{learned * (1 - 1.1*learnedWithin), bits, "does not learn what it should"},
		{report.Number(math.NaN()), bits, "does not learn what it should"},
		{learned, []byte{1, 3}, "results on this device cannot be repeated"},
	} {
		var check selfcheck
		same := check.judge(summary{Loss: c.loss}, bits, c.resumed)
		if strings.Contains(same, "OTHER") != strings.Contains(c.wrong, "repeated") ||
			(len(check.wrong) > 0) != (c.wrong != "") || !strings.Contains(strings.Join(check.wrong, ""), c.wrong) {
			t.Errorf("%v, %v: %s, %q, want %q", c.loss, c.resumed, same, check.wrong, c.wrong)
		}
	}
}
