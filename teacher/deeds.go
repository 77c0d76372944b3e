package teacher

import (
	"regexp"
	"slices"
	"strings"

	"restyle/internal/python"
	"restyle/voice"
)

// readDeeds adds what the statements of a block of code do to f. It reads simple statements and the headers of
// compound ones, each on a line of its own, and adds nothing for anything else. tokens have no comments.
func readDeeds(f *voice.Facts, src string, tokens []python.Token) {
	if f.Deeds == nil {
		f.Deeds = map[string][][2]string{}
	}
	before := map[string]int{}
	for kind, deeds := range f.Deeds {
		before[kind] = len(deeds)
	}
	all, rebound := tokens, map[string]int{}
	defer func() { keepSole(f, before, all, rebound) }()
	var around []block // the indented blocks around the statement
	next := block{}
	for len(tokens) > 0 {
		switch tokens[0].Kind {
		case python.Indent:
			around, next = append(around, next), block{}
			tokens = tokens[1:]
			continue
		case python.Dedent:
			around = around[:len(around)-1]
			tokens = tokens[1:]
			continue
		}
		end := slices.IndexFunc(tokens, func(t python.Token) bool { return t.Kind == python.Newline })
		if end < 0 {
			return
		}
		s := line{src: src, tokens: tokens[:end]}
		tokens = tokens[end+1:]
		if len(s.tokens) == 0 || s.find(";", 0) < len(s.tokens) {
			continue
		}
		s.bind(rebound)
		next = s.read(f, around)
	}
}

// innermost returns the function whose body a statement is in.
func innermost(around []block) string {
	for _, b := range slices.Backward(around) {
		if b.function != "" {
			return b.function
		}
	}
	return ""
}

// classAround returns the class whose body a statement is in.
func classAround(around []block) string {
	for _, b := range slices.Backward(around) {
		if b.class {
			return b.name
		}
	}
	return ""
}

// keepSole keeps only deeds that are everything of their kind that the code does, so that a sentence may say that a
// function returns this, and not only that it can. It drops the returns of a function that has several, conditions
// and prints if there are several, a variable that is set twice, and a loop that may end early. before has the numbers
// of deeds in earlier blocks of code, and rebound has how often bind has found each name.
func keepSole(f *voice.Facts, before map[string]int, tokens []python.Token, rebound map[string]int) {
	words, set, returns := map[string]int{}, map[string]int{}, map[string]int{}
	for i, t := range tokens {
		if t.Kind != python.Name {
			continue
		}
		words[t.Text]++
		switch next := tokens[i+1].Text; { // the last token is not a name
		case next == "=", augments(next), next == "[" && begins(tokens, i), next == "." && changes[tokens[i+2].Text]:
			set[t.Text]++
		}
	}
	for _, d := range f.Deeds["return"][before["return"]:] {
		returns[d[0]]++
	}
	// A return on the same line as its if has not been read.
	unread := words["return"] != len(f.Deeds["return"][before["return"]:])
	otherwise := unread || words["yield"]+words["raise"] > 0
	leaves := words["break"]+words["continue"] > 0
	for kind, sole := range map[string]func(d [2]string) bool{
		"return": func(d [2]string) bool { return returns[d[0]] == 1 && !otherwise && d[1] != "" },
		"loop":   func([2]string) bool { return words["for"] == 1 && !leaves && words["return"] == 0 },
		"await": func(d [2]string) bool {
			return d[0] != "True" && words["while"] == 1 && !leaves && words["return"] == 0
		},
		"test":   func([2]string) bool { return words["if"]+words["elif"] == 1 },
		"print":  func([2]string) bool { return words["print"] == 1 },
		"assign": func(d [2]string) bool { return set[d[0]] == 1 && rebound[d[0]] == 0 },
		"unpack": func(d [2]string) bool {
			first, second, _ := strings.Cut(d[0], ", ")
			return set[first] == 0 && set[second] == 1 && rebound[first] == 1 && rebound[second] == 1
		},
		"start": func(d [2]string) bool { return set[d[0]] == 2 && rebound[d[0]] == 0 },
		"fix":   func(d [2]string) bool { return set[d[0]] == 1 && rebound[d[0]] == 0 },
	} {
		own := f.Deeds[kind][before[kind]:]
		kept := append([][2]string(nil), f.Deeds[kind][:before[kind]]...)
		for _, d := range own {
			if sole(d) {
				kept = append(kept, d)
			}
		}
		if len(kept) == 0 {
			delete(f.Deeds, kind)
		} else {
			f.Deeds[kind] = kept
		}
	}
}

// begins reports whether the ith token starts a line.
func begins(tokens []python.Token, i int) bool {
	return i == 0 || slices.Contains([]python.Kind{python.Newline, python.Indent, python.Dedent}, tokens[i-1].Kind)
}

// augments reports whether an operator assigns and does more.
func augments(operator string) bool {
	return strings.HasSuffix(operator, "=") && !strings.Contains("== <= >= !=", operator)
}

// changes are the methods that change their object.
var changes = map[string]bool{"append": true, "extend": true, "insert": true, "remove": true, "pop": true,
	"clear": true, "sort": true, "reverse": true, "add": true, "update": true, "discard": true, "setdefault": true}

// A line is one logical line of code.
type line struct {
	src    string
	tokens []python.Token
}

// text returns the source of tokens[from:to].
func (s *line) text(from, to int) string {
	if from >= to {
		return ""
	}
	return s.src[s.tokens[from].Pos:s.tokens[to-1].End]
}

// find returns the index of the first operator or keyword with that text outside of brackets, at from or after it, or
// the number of tokens if there is none.
func (s *line) find(text string, from int) int {
	depth := 0
	for i := from; i < len(s.tokens); i++ {
		switch t := s.tokens[i]; {
		case depth == 0 && t.Text == text && t.Kind != python.String:
			return i
		case t.Kind != python.Op:
		case strings.Contains("([{", t.Text):
			depth++
		case strings.Contains(")]}", t.Text):
			depth--
		}
	}
	return len(s.tokens)
}

// bind counts the names that the line binds in another way than by an assignment to one name.
func (s *line) bind(names map[string]int) {
	whole := slices.Contains([]string{"def", "global", "nonlocal", "del", "import", "from"}, s.tokens[0].Text)
	until := "" // the token that ends a list of targets or parameters
	equals := s.find("=", 0)
	several := equals < len(s.tokens) && s.find(",", 0) < equals
	for i, t := range s.tokens {
		switch t.Text {
		case until:
			until = ""
		case "for":
			until = "in"
		case "lambda":
			until = ":"
		case "as":
			until = "\n"
		default:
			if t.Kind == python.Name && (whole || until != "" || several && i < equals) {
				names[t.Text]++
			}
		}
	}
}

// read adds what the statement does, inside these blocks. It returns the block that it opens, if it does.
func (s *line) read(f *voice.Facts, around []block) (opens block) {
	function := innermost(around)
	add := func(kind, first, second string) { f.Deeds[kind] = append(f.Deeds[kind], [2]string{first, second}) }
	n := len(s.tokens)
	if n < 2 {
		if s.tokens[0].Text == "return" && function != "" {
			add("return", function, "")
		}
		return block{}
	}
	header := s.tokens[n-1].Text == ":"
	switch first, second := s.tokens[0].Text, s.tokens[1].Text; {
	case first == "return":
		if function != "" {
			add("return", function, s.text(1, n))
		}
	case first == "for" && header:
		opens.loop = true
		if in := s.find("in", 1); in < n {
			add("loop", s.text(1, in), s.text(in+1, n-1))
		}
	case first == "while" && header:
		opens.loop = true
		add("await", s.text(1, n-1), "")
	case first == "if" && header:
		add("test", s.text(1, n-1), "")
	case first == "raise" && s.tokens[1].Kind == python.Name:
		add("raise", second, "")
	case first == "except" && header && s.tokens[1].Kind == python.Name:
		add("catch", second, "")
	case first == "class" && header:
		opens.class, opens.name = true, second
		if n == 6 {
			add("derive", second, s.tokens[3].Text)
		}
	case first == "def":
		s.define(add)
		opens.function = second
	case n == 5 && first == "self" && second == "." && s.tokens[3].Text == "=" && function == "__init__":
		if class := classAround(around); class != "" {
			add("keep", class, s.tokens[2].Text)
		}
	case second == ":" && len(around) > 0 && around[len(around)-1].class && strings.Contains(s.src, "@dataclass"):
		add("keep", around[len(around)-1].name, first)
	case first == "print" && n == 4 && s.tokens[2].Kind == python.String:
		add("say", s.tokens[2].Text, "")
	case first == "print" && second == "(" && s.find(")", 2) == n-1:
		if len(around) == 0 && s.find(",", 2) == n {
			add("print", s.text(2, n-1), "")
		}
	case n > 5 && second == "." && s.tokens[2].Text == "append" && s.find(")", 4) == n-1:
		add("append", s.text(4, n-1), first)
	case s.tokens[0].Kind == python.Name && second == "=" && s.find("=", 2) == n:
		s.assign(add)
	case n > 5 && second == "," && s.tokens[2].Kind == python.Name && s.tokens[3].Text == "=" && s.find("=", 4) == n &&
		s.find(",", 4) == n:
		add("unpack", s.text(0, 3), s.text(4, n))
	case s.tokens[0].Kind == python.Name && augments(second):
		if len(around) > 0 && around[len(around)-1].loop {
			add("step", s.text(0, n), "")
		}
	}
	return opens
}

// assign adds an assignment to a name. An assignment of plain data is not a deed: the data may be the question's.
func (s *line) assign(add func(kind, first, second string)) {
	n := len(s.tokens)
	if n == 3 && s.tokens[2].Kind == python.Number {
		add("start", s.tokens[0].Text, s.tokens[2].Text)
		add("fix", s.tokens[0].Text, s.tokens[2].Text)
		return
	}
	for _, t := range s.tokens[2:] {
		if t.Kind == python.Name && t.Text != "True" && t.Text != "False" && t.Text != "None" {
			add("assign", s.tokens[0].Text, s.text(2, n))
			return
		}
	}
}

// define adds the parameters of a function. Parameters with a star do not make a list that a sentence could give.
func (s *line) define(add func(kind, first, second string)) {
	end := s.find(")", 3)
	if end >= len(s.tokens) || s.tokens[2].Text != "(" {
		return
	}
	var names []string
	defaults := false
	for from := 3; from < end; {
		to := min(s.find(",", from), end)
		name := s.tokens[from]
		if name.Kind != python.Name {
			return
		}
		if name.Text != "self" && name.Text != "cls" {
			names = append(names, "`"+name.Text+"`")
		}
		if s.tokens[from+1].Text == "=" {
			add("default", name.Text, s.text(from+2, to))
			defaults = true
		}
		from = to + 1
	}
	switch k := len(names); {
	case defaults, k == 0, k > 4: // with defaults, it can do without them
	case k == 1:
		add("take", s.tokens[1].Text, names[0])
	default:
		add("take", s.tokens[1].Text, strings.Join(names[:k-1], ", ")+" and "+names[k-1])
	}
}

var (
	// statedNumber matches a whole number by itself in a question.
	statedNumber = regexp.MustCompile(`(?:^|[\s(])(\d{1,6})(?:[\s,.?;:)]*(?:\s|$))`)
	// quotedWord matches a word that is text by itself, in a question or in its input. A phrase may call a word "it",
	// so a word with a capital, which may be a person's name, does not match.
	quotedWord = regexp.MustCompile(`"([a-z]{4,14})"`)
	// bareWord matches a longer word of an input that is plain text.
	bareWord = regexp.MustCompile(`\b[a-z]{5,14}\b`)
)

// readQuestion adds to f the numbers of a question, and the words that the code also has as text.
func readQuestion(f *voice.Facts, instruction, input string, blocks []string) {
	f.Deeds = map[string][][2]string{}
	add := func(kind, text string) {
		if deed := [2]string{text}; !slices.Contains(f.Deeds[kind], deed) {
			f.Deeds[kind] = append(f.Deeds[kind], deed)
		}
	}
	for _, m := range statedNumber.FindAllStringSubmatch(instruction, -1) {
		add("number", m[1])
	}
	code := strings.Join(blocks, "\n")
	for _, m := range quotedWord.FindAllStringSubmatch(instruction+"\n"+input, -1) {
		if strings.Contains(code, m[0]) {
			add("word", m[1])
		}
	}
	if strings.ContainsAny(input, "\"'()[]{}=:") {
		return
	}
	for _, word := range bareWord.FindAllString(input, -1) {
		if strings.Contains(code, `"`+input+`"`) {
			add("word", word)
		}
	}
}
