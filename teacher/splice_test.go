package teacher

import (
	"strings"
	"testing"

	"restyle/internal/hostile"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		blocks       []string
		text, other  string
	}{
		{"bare code", "x = 1\nprint(x)\n", []string{"x = 1\nprint(x)"}, "[[CODE_1]]", ""},
		{"prose and one block", "Do this:\n```python\nx = 1\n```\nDone.", []string{"x = 1"}, "Do this:\n[[CODE_1]]\nDone.\n",
			""},
		{"two blocks", "```py\na\n```\nand\n~~~\nb\n~~~", []string{"a", "b"}, "[[CODE_1]]\nand\n[[CODE_2]]\n", ""},
		{"another language", "```bash\nls\n```", []string{"ls"}, "[[CODE_1]]\n", "bash"},
		{"unclosed", "see\n```\nx = 1", []string{"x = 1"}, "see\n[[CODE_1]]\n", ""},
		{"backticks in the code", "````\na = '''\n```\n'''\n````", []string{"a = '''\n```\n'''"}, "[[CODE_1]]\n", ""},
		{"a fence in a string", "help = \"\"\"\n```python\nrun()\n```\n\"\"\"\nprint(help)",
			[]string{"help = \"\"\"\n```python\nrun()\n```\n\"\"\"\nprint(help)"}, "[[CODE_1]]", ""},
		{"inline ticks are prose", "x = 1  # ```not a fence```", []string{"x = 1  # ```not a fence```"}, "[[CODE_1]]", ""},
	} {
		p := split(c.answer)
		if strings.Join(p.Blocks, "|") != strings.Join(c.blocks, "|") || p.Text != c.text || p.Other != c.other {
			t.Errorf("%s: got %q, text %q, other %q", c.name, p.Blocks, p.Text, p.Other)
		}
	}
}

func TestJoin(t *testing.T) {
	two := Parts{Blocks: []string{"a = 1", "b = '```'"}}
	for _, c := range []struct{ name, rewrite, want, err string }{
		{"in place", "So.\n\n[[CODE_1]]\n\nAnd.\n\n[[CODE_2]]",
			"So.\n\n```python\na = 1\n```\n\nAnd.\n\n````python\nb = '```'\n````", ""},
		{"missing", "So.\n[[CODE_1]]", "", "[[CODE_2]] is missing"},
		{"twice", "[[CODE_1]]\n[[CODE_1]]\n[[CODE_2]]", "", "[[CODE_2]] alone on its line is due"},
		{"out of order", "[[CODE_2]]\n[[CODE_1]]", "", "[[CODE_1]] alone on its line is due"},
		{"inside a sentence", "Here is [[CODE_1]] for you\n[[CODE_2]]", "", "alone on its line"},
		{"one too many", "[[CODE_1]]\n[[CODE_2]]\n[[CODE_3]]", "", "has 2 code blocks"},
		{"misspelt", "[[CODE 1]]\n[[CODE_2]]", "", "[[CODE_1]] alone on its line is due"},
		{"in a fence", "```python\n[[CODE_1]]\n```\n~~~\n\n[[code_2]]\n~~~\nSo.",
			"```python\na = 1\n```\n\n````python\nb = '```'\n````\nSo.", ""},
		{"in emphasis, with a colon", "**[[CODE_1]]**\n[[CODE_2]]:\nSo.",
			"```python\na = 1\n```\n````python\nb = '```'\n````\nSo.", ""},
		{"in small letters", "  [[code_1]]\r\n[[Code_2]]", "```python\na = 1\n```\n````python\nb = '```'\n````", ""},
		{"in small letters in a sentence", "[[CODE_1]]\n[[CODE_2]]\nSee [[code_2]].", "", "alone on its line"},
		{"another spelling in a sentence", "[[CODE_1]]\n[[CODE_2]]\nSee [[ Code-2 ]].", "", "alone on its line"},
		{"an empty fence", "[[CODE_1]]\n[[CODE_2]]\n```\n```", "", "a fenced block of its own"},
		{"a fence with more", "```\n[[CODE_1]]\nx\n```\n[[CODE_2]]", "", "a fenced block of its own"},
		{"a fence of its own", "[[CODE_1]]\n[[CODE_2]]\n```\n7\n```", "", "a fenced block of its own"},
	} {
		got, err := two.join(c.rewrite)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q, %v", c.name, got, err)
		}
	}
}

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

func TestUnwrap(t *testing.T) {
	for _, c := range []struct{ name, answer, rewrite, comments, err string }{
		{"closed", "Sure!\n<rewrite>\nA.\n</rewrite>\nBye", "A.", "", ""},
		{"cut by the stop sequence", "<rewrite>\nA.\n", "A.", "", ""},
		{"comments", "<comments>\nL1: x\n</comments>\n<rewrite>A.</rewrite>", "A.", "L1: x", ""},
		{"no tag", "A.", "", "", "no <rewrite> tag"},
		{"two tags", "<rewrite>A<rewrite>B", "", "", "more than one"},
		{"empty", "<rewrite></rewrite>", "", "", ""},
		{"thoughts", "<think>\nI must use <rewrite> and <comments> tags.\n</think>\n\n<rewrite>\nA.", "A.", "", ""},
		{"thoughts and comments", " <think><rewrite>x</rewrite></think><comments>L1: y</comments><rewrite>A.</rewrite>", "A.",
			"L1: y", ""},
		{"thoughts begun by the prompt", "so <rewrite> it is.</think><rewrite>A.", "A.", "", ""},
		{"thoughts without an end", "<think>They want it in <rewrite>", "", "", "inside its thoughts"},
		{"an answer that speaks of thoughts", "<rewrite>You said </think>, naturally.", "You said </think>, naturally.", "",
			""},
		{"an empty thought", "<think></think>A.", "", "", "no <rewrite> tag"},
	} {
		rewrite, comments, err := unwrap(c.answer)
		if rewrite != c.rewrite || comments != c.comments || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q, %q, %v", c.name, rewrite, comments, err)
		}
	}
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
