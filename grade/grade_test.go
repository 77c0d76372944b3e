package grade_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"restyle/grade"
	"restyle/internal/expect"
	"restyle/internal/sandbox"
)

// TestCheckPy_KeepsContract checks that check.py keeps the contract in README.md.
func TestCheckPy_KeepsContract(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)() // a busy machine may take longer than the limit
	tests := []struct {
		name, code, check string
		want              grade.Verdict
	}{
		{"right", "print(2 + 2)", "assert int(printed) == 4", grade.Verdict{true, true, "", "4\n"}},
		{"wrong", "print(5)", "assert int(printed) == 4", grade.Verdict{true, false, "check: AssertionError", "5\n"}},
		{"does not parse", "print(", "", grade.Verdict{false, false, "*", ""}},
		{"null byte", "a\x00b", "", grade.Verdict{false, false, "*", ""}},
		{"raises", "print(1)\n1 / 0", "", grade.Verdict{true, false, "ZeroDivisionError: division by zero", "1\n"}},
		{"check does not parse", "", "assert (", grade.Verdict{true, false, "*", ""}},
		{"is main", "if __name__ == '__main__':\n    print('main')", "assert printed == 'main\\n'",
			grade.Verdict{true, true, "", "main\n"}},
		{"the code's names", "x = 3", "assert x == 3", grade.Verdict{true, true, "", ""}},
		{"functions in order", "def b(): pass\nclass C: pass\na = lambda: 1\nc = b",
			"assert [f.__name__ for f in functions] == ['b', 'C', '<lambda>']", grade.Verdict{true, true, "", ""}},
		{"imports are not the code's functions", "from math import sqrt\nfrom collections import Counter\nimport re",
			"assert functions == []", grade.Verdict{true, true, "", ""}},
		{"decorated functions are", "from functools import lru_cache\n@lru_cache\ndef f(): return 1",
			"assert functions[-1]() == 1", grade.Verdict{true, true, "", ""}},
		{"hidden builtin", "sum = 3\ndef f(): return sum", "assert sum([1, 2]) == 3 and f() == 3",
			grade.Verdict{true, true, "", ""}},
		{"prints of the check are not the code's", "def f(): print(1)", "f()\nassert printed == ''",
			grade.Verdict{true, true, "", ""}},
		{"exits", "print(1)\nimport sys\nsys.exit()", "assert printed == '1\\n'", grade.Verdict{true, true, "", "1\n"}},
		{"exits with a failure", "import sys\nsys.exit('no')", "", grade.Verdict{true, false, "SystemExit: no", ""}},
		{"ends the process", "import os\nos._exit(0)", "", grade.Verdict{true, false, "ended without a result", ""}},
		{"kills itself", "import os\nos.kill(os.getpid(), 9)", "", grade.Verdict{true, false, "ended without a result", ""}},
		{"reads input", "input()", "", grade.Verdict{true, false, "EOFError: EOF when reading a line", ""}},
		{"memory", "x = bytearray(1 << 40)", "", grade.Verdict{true, false, "MemoryError", ""}},
		{"deep recursion", "def f(): f()\nf()", "", grade.Verdict{true, false, "*", ""}},
		{"writes to the descriptor", "import os\nos.write(1, b'{}\\n')\nprint('ok')", "assert printed == 'ok\\n'",
			grade.Verdict{true, true, "", "ok\n"}},
		{"a child holds on", "import os, time\nif os.fork() == 0:\n    time.sleep(1000)\nprint(1)", "",
			grade.Verdict{true, false, "left processes behind", "1\n"}},
		{"unicode", "print('é\\ud800')", "assert printed[0] == 'é'", grade.Verdict{true, true, "", "é\ufffd\n"}},
		{"main is fresh", "try:\n    x\nexcept NameError:\n    print('fresh')", "assert printed == 'fresh\\n'",
			grade.Verdict{true, true, "", "fresh\n"}},
	}
	trials := make([]grade.Trial, len(tests))
	for i, test := range tests {
		trials[i] = grade.Trial{Code: test.code, Check: test.check}
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	expect.OK(t, err)
	for i, test := range tests {
		got := verdicts[i]
		if test.want.Error == "*" && got.Error != "" {
			got.Error = "*"
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
}

// TestGradeEnds checks that a trial that would never end is stopped, whatever it does, in the answer and in the check.
func TestGradeEnds(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTimes(100*time.Millisecond, 200*time.Millisecond)()
	trials := []grade.Trial{
		{Code: "while True: pass"},
		{Code: "while True:\n    try:\n        while True: pass\n    except BaseException: pass"},
		{Code: "import time\ntime.sleep(1000)"},
		{Check: "while True: pass"},
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if v.Right || v.Error != "ran longer than 0.1 s" {
			t.Errorf("%+v: %+v", trials[i], v)
		}
	}
}

// TestGrade_TriesLateTrialsAgain checks that a trial that is late because it waits is tried again, and that its second
// result counts.
func TestGrade_TriesLateTrialsAgain(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(10 * time.Millisecond)()
	verdicts, err := grade.Run(t.Context(), "python3", []grade.Trial{
		{Code: "import time\ntime.sleep(0.1)\nprint('done')", Check: "assert printed == 'done\\n'"},
		{Code: "import time\ntime.sleep(0.1)", Check: "assert False"},
	})
	expect.OK(t, err)
	if v := verdicts[0]; !v.Right || v.Error != "" || v.Printed != "done\n" {
		t.Errorf("a late answer that is right: %+v", v)
	}
	if v := verdicts[1]; v.Right || v.Error != "ran longer than 0.01 s" {
		t.Errorf("a late answer that is wrong: %+v", v)
	}
}

// TestGradeKeepsOrder runs more trials than processes, with trials of different length.
func TestGradeKeepsOrder(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)()
	trials := make([]grade.Trial, 23)
	for i := range trials {
		trials[i] = grade.Trial{Code: fmt.Sprintf("import time\ntime.sleep(%d / 1000)\nprint(%d)", 7*i%20, i),
			Check: "assert int(printed) % 3 == 0"}
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if v.Printed != fmt.Sprintln(i) || v.Right != (i%3 == 0) {
			t.Errorf("trial %d: %+v", i, v)
		}
	}
	if verdicts, err := grade.Run(t.Context(), "python3", nil); err != nil || len(verdicts) != 0 {
		t.Errorf("no trials: %v, %v", verdicts, err)
	}
}

// TestGradeShowsNothing checks that untrusted code sees neither keys in the environment nor the caller's directory.
func TestGradeShowsNothing(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)()
	t.Setenv("HF_TOKEN", "secret")
	t.Chdir(t.TempDir())
	trials := []grade.Trial{{
		Code: "import os\nprint('HF_TOKEN' in os.environ, os.listdir())\nopen('left behind', " +
			"'w').close()\nprint(os.listdir())",
		Check: "assert printed == \"False []\\n['left behind']\\n\"",
	}}
	// The trial runs twice: the second run must not see what the first one left.
	verdicts, err := grade.Run(t.Context(), "python3", append(trials, trials...))
	if err != nil || !verdicts[0].Right || !verdicts[1].Right {
		t.Errorf("%+v, %v", verdicts, err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the code wrote here: %v, %v", entries, err)
	}
}

func TestGradeWithoutPython(t *testing.T) {
	trials := []grade.Trial{{}}
	if _, err := grade.Run(t.Context(), "no-such-python", trials); err == nil ||
		!strings.Contains(err.Error(), "no-such-python") {
		t.Errorf("a program that is not there: %v", err)
	}
	folder := t.TempDir()
	python := filepath.Join(folder, "python3")
	for _, c := range []struct{ script, want string }{
		{"", "is no Python 3: asked where it is, it says \"\""}, {"echo 7", `it says "7"`},
		{`echo '{"program": "python3"}'`, "is no Python 3"}, {`echo '{"program": "/no/such/python3"}'`, "/no/such/python3"},
		{"echo it is broken >&2; exit 3", "exit status 3 it is broken"},
	} {
		expect.OK(t, os.WriteFile(python, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
		if _, err := grade.Run(t.Context(), python, trials); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "grading: ") {
			t.Errorf("%q: %v, want %q", c.script, err, c.want)
		}
	}
	t.Chdir(folder) // a relative path is relative to here, not to where the code runs
	if _, err := grade.Run(t.Context(), "./python3", trials); err == nil ||
		!strings.Contains(err.Error(), "it is broken") {
		t.Errorf("a relative path: %v", err)
	}
}

// needPython skips a test if code cannot be run in a sandbox.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	if _, err := grade.Run(t.Context(), "python3", []grade.Trial{{}}); errors.Is(err, sandbox.ErrUnavailable) {
		t.Skip(err)
	}
}
