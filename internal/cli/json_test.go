package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"restyle/internal/expect"
)

func TestJSONLine(t *testing.T) {
	for _, text := range []string{"plain <b> & é 漢", "\x1b]0;x\x07", "C1 \u009b2J", "\u202e\u2066", "del \x7f",
		"tag \U000e0041",
		"two\nlines\ttab"} {
		line, err := JSONLine(map[string]string{text: text})
		expect.OK(t, err)
		if s := string(line); Clean(s) != s || strings.Count(s, "\n") != 1 || strings.Contains(s, `\u003c`) {
			t.Errorf("%q: %q", text, s)
		}
		var back map[string]string
		if err := json.Unmarshal(line, &back); err != nil || back[text] != text {
			t.Errorf("%q came back as %q: %v", text, back, err)
		}
	}
	if _, err := JSONLine(func() {}); err == nil {
		t.Error("a function is no JSON")
	}
}
