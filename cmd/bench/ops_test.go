package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/opcheck"
)

// TestOps checks the table of two operations, one that can be fused and one that cannot.
func TestOps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ops.json")
	code, stdout, stderr := bench(t, "ops", "--op", "swiglu, add", "--threads", "1", "--json", file)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	lines := strings.Split(stdout, "\n")
	if !strings.HasPrefix(lines[0], "device  cpu, ") || !strings.HasSuffix(lines[0], ", 1 thread") {
		t.Errorf("it begins with %q", lines[0])
	}
	ok := "ok PERCENT"
	for i, want := range map[int]string{
		2: "F32 BF16 F16",
		3: "operation unfused fused unfused fused unfused fused",
		4: "add " + ok + " - " + ok + " - " + ok + " -",
		5: "swiglu" + strings.Repeat(" "+ok, 6),
		6: "swiglu backward" + strings.Repeat(" "+ok, 6),
		7: "",
	} {
		words := strings.Fields(lines[i])
		for k, w := range words {
			if strings.HasSuffix(w, "%") {
				words[k] = "PERCENT"
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
	last := lastLine(t, stdout)
	if last["command"] != "ops" || last["ok"] != true || last["failed"] != 0.0 || last["threads"] != 1.0 ||
		last["rows"] != nil {
		t.Errorf("the last line is %v", last)
	}
	data, err := os.ReadFile(file)
	expect.OK(t, err)
	var full opsReport
	if err := json.Unmarshal(data, &full); err != nil || len(full.Rows) != 3+12 ||
		full.Cases != len(opcheck.Of("add"))+len(opcheck.Of("swiglu")) {
		t.Errorf("%s: %v, %d rows, %d cases", file, err, len(full.Rows), full.Cases)
	}
	for _, row := range full.Rows {
		if row.Cases == 0 || row.Worst >= 1 || row.Faults != nil {
			t.Errorf("%+v", row)
		}
	}
}

// planted runs bench ops with the cases in list.
func planted(t *testing.T, list []*opcheck.Case, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	o := &opsOptions{device: "cpu", list: list}
	code = o.run(context.Background(), args, &out, &errs)
	for l := range strings.Lines(out.String()) {
		if cli.Columns(strings.TrimSuffix(l, "\n")) > 100 && l[0] != '{' {
			t.Errorf("over 100 columns: %q", l)
		}
	}
	return code, out.String(), errs.String()
}

// TestOps_SpoiledCasesFail checks two spoiled cases: the table marks their cells, the text below it says what is wrong
// with each case, and the exit code is 1.
func TestOps_SpoiledCasesFail(t *testing.T) {
	list := slices.Concat(opcheck.Of("swiglu"), opcheck.Of("add"))
	bad := func(c *opcheck.Case) bool { return c.ID() == "swiglu BF16 3x7" || c.ID() == "add F32 7" }
	count := map[bool]int{} // cases of a cell, by whether it is swiglu's or add's
	for _, c := range list {
		if strings.HasPrefix(c.ID(), "swiglu BF16 ") || strings.HasPrefix(c.ID(), "add F32 ") {
			count[c.Op == "swiglu"]++
		}
		if right := c.Want; bad(c) {
			c.Want = func(x opcheck.Values) opcheck.Values {
				y := right(x)
				y["y"][0]++ // the gradient stays the same
				return y
			}
		}
	}
	file := filepath.Join(t.TempDir(), "ops.json")
	code, stdout, stderr := planted(t, list, "--json", file)
	if code != cli.Failed || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{
		fmt.Sprintf("\nadd                     FAIL 1/%-4d -", count[false]),
		fmt.Sprintf("FAIL 1/%-4d FAIL 1/%-4[1]d ok ", count[true]),
		"\nFAIL swiglu forward, BF16, unfused\nswiglu BF16 3x7: y is off by ",
		"\nFAIL swiglu forward, BF16, fused\nswiglu BF16 3x7: y is off by ",
		"\nFAIL add forward, F32, unfused\nadd F32 7: y is off by ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if n := strings.Count(stdout, "FAIL"); n != 6 {
		t.Errorf("FAIL is there %d times in\n%s", n, stdout)
	}
	if last := lastLine(t, stdout); last["ok"] != false || last["failed"] != 3.0 {
		t.Errorf("the last line is %v", last)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(data, []byte(`"case": "add F32 7"`)) || !bytes.Contains(data, []byte("y[0] is ")) {
		t.Errorf("%v, %s", err, data)
	}
	if code, _, stderr := planted(t, list[:1], "--json", filepath.Join(file, "x")); code != cli.Failed ||
		!strings.Contains(stderr, "--json") {
		t.Errorf("a file that cannot be written: exit %d, %q", code, stderr)
	}
}

func TestOpsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"ops"}, &out, &errs); code != cli.Failed || !strings.Contains(errs.String(), "stopped") ||
		out.Len() > 0 {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
