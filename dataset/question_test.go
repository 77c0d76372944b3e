package dataset

import (
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/expect"
)

func checkQuestion(t *testing.T, instruction, input string) {
	q := Question(instruction, input)
	if again := Question(q, input); again != q && strings.TrimSpace(instruction) != "" {
		t.Errorf("Question(%q, %q) = %q, and joined again %q", instruction, input, q, again)
	}
	if in := strings.TrimSpace(plainLines(input)); !NoInput(in) && !strings.Contains(q, in) {
		t.Errorf("Question(%q, %q) = %q lost the input", instruction, input, q)
	}
	// The question contains the whole instruction except a final full stop.
	if in := strings.TrimSuffix(strings.TrimSpace(plainLines(instruction)), "."); !strings.HasPrefix(q, in) {
		t.Errorf("Question(%q, %q) = %q lost the instruction", instruction, input, q)
	}
	if utf8.ValidString(instruction) && utf8.ValidString(input) && !utf8.ValidString(q) {
		t.Errorf("Question(%q, %q) = %q is not UTF-8", instruction, input, q)
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add("Sort the list.", "[3, 1]")
	f.Add("What?", "a\r\nb")
	f.Add("x.", "...")
	f.Add("é", "é")
	f.Add("", " \n x \n y")
	f.Add("Do.\n", "<noinput>")
	f.Add("the U.S.", "states")
	f.Add("0", "\n0")
	f.Fuzz(checkQuestion)
}

func TestQuestionOnRealRows(t *testing.T) {
	for name, least := range map[string]int{"gpteacher_codegen-instruct.json": 3500, "torchtune_alpaca_tiny.json": 44,
		"original_passive_aggressive_data.json": 300} {
		rows, _, err := all(expect.Reference(t, "data", "instruct/"+name), Options{})
		expect.OK(t, err)
		joined := 0
		for _, r := range rows {
			checkQuestion(t, r.Instruction, r.Input)
			if Question(r.Instruction, r.Input) != strings.TrimSpace(plainLines(r.Instruction)) {
				joined++
			}
		}
		t.Logf("%s: %d rows, %d with an input in the question", name, len(rows), joined)
		if joined < least {
			t.Errorf("%s: only %d questions have an input, want at least %d", name, joined, least)
		}
	}
}
