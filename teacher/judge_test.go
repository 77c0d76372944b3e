package teacher

import "testing"

func TestOpinion(t *testing.T) {
	for _, c := range []struct {
		answer string
		tone   int // 0: no opinion
	}{
		{`{"tone": 1, "professional": true, "technically_wrong": []}`, 1},
		{"Here:\n```json\n{\"tone\": 5}\n```", 5},
		{"<think>A form such as {\"tone\": N} is wanted.</think>{\"tone\": 3}", 3},
		{`{"tone": 0}`, 0},
		{`{"tone": 6}`, 0},
		{`{"tone": "3"}`, 0},
		{`It is fine.`, 0},
		{`{"tone": 3`, 0},
	} {
		o, err := parseOpinion(c.answer)
		if (err == nil) != (c.tone > 0) || err == nil && (o.Tone != c.tone || o.Wrong == nil) {
			t.Errorf("%s: %+v, %v", c.answer, o, err)
		}
	}
}
