package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

// TestSelfcheck checks that a correct device passes, with a line for each part. The tests of opcheck check all
// operations.
func TestSelfcheck(t *testing.T) {
	checked = func() []*opcheck.Case { return slices.Concat(opcheck.Of("rmsnorm"), opcheck.Of("softmax")) }
	t.Cleanup(func() { checked = opcheck.All })
	for _, dtype := range []string{"bf16", "fp32"} {
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

// TestSelfcheckFinds checks that a device that learns something else fails.
func TestSelfcheckFinds(t *testing.T) {
	defer func(was float64) { learned = was }(learned)
	learned = 1
	d, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var out strings.Builder
	o, f := newOptions(&out, &out)
	c := &selfcheck{train: newTrain(o, f, &out, &out, cli.NewStatusLine(&out), nil), d: d, kind: tensor.BF16}
	if err := c.learns(context.Background()); err != nil || len(c.wrong) != 1 ||
		!strings.Contains(c.wrong[0], "does not learn what it should") {
		t.Errorf("%q, %v", c.wrong, err)
	}
}
