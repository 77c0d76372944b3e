package grade_test

import (
	"embed"
	"strings"
	"testing"
	"time"

	"restyle/grade"
	"restyle/internal/expect"
)

//go:embed testdata/*.py
var testdata embed.FS

// A program is an answer, such as an attack: it tries to do something forbidden. None would do lasting harm to this
// machine if it succeeded, not even as root.
type program struct {
	name, code, check string
	endless           bool // it never ends, so that a short time limit does for it
}

// programs returns the programs in a file in testdata: "#### NAME" starts one, and "## check" its check. A line such
// as $FILES means the program of that name in shared.py.
func programs(t *testing.T, file string) (list []program) {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + file + ".py")
	expect.OK(t, err)
	for _, part := range strings.Split(string(text), "\n#### ")[1:] {
		var p program
		p.name, p.code, _ = strings.Cut(part, "\n")
		p.name, p.endless = strings.CutSuffix(p.name, " (never ends)")
		p.code, p.check, _ = strings.Cut(p.code, "## check\n")
		if file != "shared" {
			for _, shared := range programs(t, "shared") {
				p.code = strings.Replace(p.code, "$"+shared.name+"\n", shared.code, 1)
			}
		}
		list = append(list, p)
	}
	return list
}

// TestRemote_ChecksCannotBeFooled checks what a check can do with values that an answer made in the other process.
func TestRemote_ChecksCannotBeFooled(t *testing.T) {
	needPython(t)
	defer grade.SetTrialTime(time.Minute)() // a busy machine may take longer than the limit
	tests := programs(t, "fooled")
	var trials []grade.Trial
	for _, test := range tests {
		trials = append(trials, grade.Trial{Code: test.code, Check: test.check})
	}
	verdicts, err := grade.Run(t.Context(), "python3", trials)
	expect.OK(t, err)
	for i, v := range verdicts {
		if !v.Right {
			t.Errorf("%s: %s", tests[i].name, v.Error)
		}
	}
}
