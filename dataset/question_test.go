package dataset

import (
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/internal/expect"
)

func TestQuestion(t *testing.T) {
	long := strings.Repeat("word ", 30) + "end"
	for _, c := range []struct{ instruction, input, want string }{
		// There is no input.
		{"Sort a list.", "", "Sort a list."},
		{"  Sort a list.\n", " \n\t ", "Sort a list."},
		{"Sort a list.", "<noinput>", "Sort a list."},
		{"Sort a list.", " <NoInput>\n", "Sort a list."},
		// A word for nothing is text.
		{"Which chemical element has this symbol?", "Na", "Which chemical element has this symbol? Na"},
		{"Is this a region?", "NA", "Is this a region? NA"},
		{"Is this a region?", "N/A", "Is this a region? N/A"},
		{"Is this valid JSON?", "null", "Is this valid JSON? null"},
		{"What is its type?", "None", "What is its type? None"},
		{"Translate.", "no input", "Translate: no input"},
		{"Explain the tag.", "noinput", "Explain the tag: noinput"},
		// The values only look empty.
		{"Reverse it.", "[]", "Reverse it: []"},
		{"Reverse it.", "()", "Reverse it: ()"},
		{"Reverse it.", `""`, `Reverse it: ""`},
		{"Count the dots.", "...", "Count the dots: ..."},
		{"Is it true?", "0", "Is it true? 0"},
		{"Find the type.", "[None]", "Find the type: [None]"},
		{"Find the type.", `"None"`, `Find the type: "None"`},
		// The question fits in one line; the end of the instruction decides how they are joined.
		{"Sort the list.", "[3, 1]", "Sort the list: [3, 1]"},
		{"Sort the list", "[3, 1]", "Sort the list: [3, 1]"},
		{"Sort the list:", "[3, 1]", "Sort the list: [3, 1]"},
		{"Sort the list, ", "[3, 1]", "Sort the list, [3, 1]"},
		{"What is the largest?", "[3, 1]", "What is the largest? [3, 1]"},
		{"Sort it!", "[3, 1]", "Sort it! [3, 1]"},
		{"Continue the row ...", "1, 2", "Continue the row ... 1, 2"},
		{"Print `x`", "x = 1", "Print `x`: x = 1"},
		{"Answer yes or no.", "Is it on?", "Answer yes or no: Is it on?"},
		{"Run main.py.", "x", "Run main.py: x"},
		{"Explain version 1.2.", "x", "Explain version 1.2: x"},
		// The rules of its language may be others, or the full stop is not the end of a sentence.
		{"把下面的句子翻译成英文：", "你好", "把下面的句子翻译成英文：\n你好"},
		{"把下面的句子翻译成英文。", "你好", "把下面的句子翻译成英文。\n你好"},
		{"这是什么颜色？", "天空", "这是什么颜色？\n天空"},
		{"ما هذا؟", "تفاحة", "ما هذا؟\nتفاحة"},
		{"इस वाक्य का अनुवाद करें।", "नमस्ते", "इस वाक्य का अनुवाद करें।\nनमस्ते"},
		{"Sortiere nach Größe.", "3, 1", "Sortiere nach Größe.\n3, 1"},
		{"Translate to English.", "déjà vu", "Translate to English.\ndéjà vu"},
		{"Continue the row…", "1, 2", "Continue the row…\n1, 2"},
		{"List e.g. the U.S.", "states", "List e.g. the U.S.\nstates"},
		{"Name fruits, vegetables, etc.", "red", "Name fruits, vegetables, etc.\nred"},
		{"Who founded Acme Inc.", "1990", "Who founded Acme Inc.\n1990"},
		{"Is it before 9 a.m.", "no", "Is it before 9 a.m.\nno"},
		// The input gets a paragraph of its own.
		{"What does it do?", "def f():\n    pass", "What does it do?\n\ndef f():\n    pass"},
		{"What does it do?", "\n\n    x = 1\n    y = 2\n\n", "What does it do?\n\n    x = 1\n    y = 2"},
		{"What does it do?", "a\r\nb\rc", "What does it do?\n\na\nb\nc"},
		{"Count the words.", long, "Count the words.\n\n" + long},
		{"Do this:\n1. sort\n2. print", "[3, 1]", "Do this:\n1. sort\n2. print\n\n[3, 1]"},
		// The instruction already contains the input.
		{"Compute the factorial of 5.", "5", "Compute the factorial of 5."},
		{"Sort the list [3, 1]", "[3, 1]", "Sort the list [3, 1]"},
		{"Sort [12, 3, 45, 6, 7] by value in Python.", "[12, 3, 45, 6, 7]", "Sort [12, 3, 45, 6, 7] by value in Python."},
		// The instruction only seems to contain the input.
		{"Print the first 5 primes of the list.", "5", "Print the first 5 primes of the list: 5"},
		{"Compute the factorial of 15.", "5", "Compute the factorial of 15: 5"},
		{"Explain hello_world_program.", "hello_world_", "Explain hello_world_program: hello_world_"},
		{"Use the variable_names_x twice.", "variable_names", "Use the variable_names_x twice: variable_names"},
		{"Use abcdefghijk twice.", "abcdefghijk", "Use abcdefghijk twice: abcdefghijk"},
		{"Use abcdefghijkl twice.", "abcdefghijkl", "Use abcdefghijkl twice."},
		{"Use xabcdefghijkl and abcdefghijkl twice.", "abcdefghijkl", "Use xabcdefghijkl and abcdefghijkl twice."},
		{"Переведи слово собака на английский.", "собака", "Переведи слово собака на английский.\nсобака"},
		{"Sort it?!", "3, 1", "Sort it?! 3, 1"}, {"x =", "3", "x = 3"}, {"Sort;", "3", "Sort; 3"},
		{"Sort..", "3", "Sort.. 3"},
		{"Ask Dr.", "3", "Ask Dr.\n3"}, {"Ask abc.", "3", "Ask abc: 3"}, {"Run a.bcd.", "3", "Run a.bcd: 3"},
		{"Count.", strings.Repeat("x", 120), "Count: " + strings.Repeat("x", 120)},
		{"Count.", strings.Repeat("x", 121), "Count.\n\n" + strings.Repeat("x", 121)},
		{"Add it.", "  1", "Add it: 1"}, {"Is it 5? ", "5", "Is it 5?"}, {"Is it 5.!?", "5", "Is it 5.!?"},
		// The instruction is empty.
		{"", "def f(): pass", "def f(): pass"},
		{"", "", ""},
		{"", "None", "None"},
		{"", "<noinput>", ""},
	} {
		if got := Question(c.instruction, c.input); got != c.want {
			t.Errorf("Question(%q, %q)\n got %q\nwant %q", c.instruction, c.input, got, c.want)
		}
	}
}

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
		if err != nil {
			t.Fatal(err)
		}
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
