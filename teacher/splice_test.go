package teacher

import (
	"strings"
	"testing"

	"restyle/internal/hostile"
)

// FuzzJoin checks that the code in the result is the source's, byte for byte, whatever a teacher writes.
func FuzzJoin(f *testing.F) {
	f.Add("x = 1\ny = '```'\n", "Well.\n\n[[CODE_1]]\n\nThere.")
	f.Add("print('''\n~~~\n''')", "[[CODE_1]]")
	f.Add("x = 1", "```\n**[[code_1]]**\n```\n[[CODE_1]]:")
	f.Add("x = 1", "    ~~~\n\t[[CODE_1]]")
	f.Add("a\n```python\nb\n```\nc", "x\n[[CODE_1]]\r\n")
	f.Fuzz(func(t *testing.T, source, rewrite string) {
		p := split(source)
		text, err := hostile.Parse(t, rewrite, p.join)
		if err != nil {
			return
		}
		var blocks []string
		for _, piece := range splitFences(text) {
			if piece.code {
				if !piece.closed || piece.tag != "python" {
					t.Fatalf("fence %+v in %q", piece, text)
				}
				blocks = append(blocks, piece.text)
			}
		}
		if len(blocks) != len(p.Blocks) {
			t.Fatalf("%d blocks became %d in %q", len(p.Blocks), len(blocks), text)
		}
		for i := range blocks {
			if blocks[i] != p.Blocks[i] {
				t.Fatalf("block %q became %q", p.Blocks[i], blocks[i])
			}
		}
	})
}

// TestThoughtsThatNameTheStop checks that after the stop sequence has ended a model's thoughts, the next request has no
// stop sequence.
func TestThoughtsThatNameTheStop(t *testing.T) {
	p := &Prompt{Style: passiveAggressive(t), Question: "How?", Parts: split(sampleCode)}
	remote := &Remote{Model: "m", MaxTokens: 9}
	stops := func() bool { return strings.Contains(string(remote.Request(p).Body), `"stop":["</rewrite>"]`) }
	if !stops() {
		t.Fatalf("%s", remote.Request(p).Body)
	}
	p.Reason, p.Previous = "it is too short", "<think>Hm.</think><rewrite>A."
	if !stops() {
		t.Error("an answer after thoughts is not stopped any more")
	}
	p.Previous = "<think>The answer ends in "
	if stops() {
		t.Error("the thoughts will be cut again")
	}
}
