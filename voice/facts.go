package voice

import (
	"maps"
	"slices"
	"strings"
)

// Facts are what one question and the code of its answer contain. The composer says nothing about them that Facts
// does not contain. A zero field means that there is nothing to say. Compose ignores values that cannot be printed:
// names that are not identifiers, an Ask with brackets or line breaks.
type Facts struct {
	Ask        string // the request as an imperative clause, "write a function that reverses a list"; see Ask
	Keyword    string // the salient noun of the question, "palindrome"; see Keyword
	IsQuestion bool   // the question has a question mark
	HasInput   bool   // the question came with input data

	Lines       int      // lines of code that are not blank
	Functions   []string // names of functions and methods that the code defines
	Definitions int      `json:",omitempty"` // how many functions and methods it defines, also of the same name
	Properties  []string // the ones among them that are properties, which are not called
	Classes     []string // names of classes that it defines
	Imports     []string // modules that it imports
	Calls       []string // builtins and methods that it calls but does not define, without dots: "len", "append"
	Names       []string // other names that it assigns to: variables and parameters
	Has         Feature  // what else the code contains

	// Deeds are what the code does, one statement each, by kind; see deedSlots. The two parts of each are as the code
	// writes them; a kind with one part leaves the second empty.
	Deeds map[string][][2]string

	Placeholders []string // [[CODE_1]] and so on, in order; at least one, unless there is an Answer

	// Answer is an answer in words, placeholders included, to write around as it is. "" if there is only code.
	Answer string `json:",omitempty"`
}

// A Feature is a set of things that code can contain. The conditions of a style file name them in lower case.
type Feature uint64

// The features, and what has them.
const (
	Loop          Feature = 1 << iota // a for or while statement (not a comprehension)
	While                             // a while statement
	Nested                            // a loop inside a loop
	Comprehension                     // a list, set or dict comprehension; a generator expression is not one
	Recursion                         // a function that calls itself by name
	List                              // a list display: [1, 2], []
	Dict                              // a dict display: {1: 2}, {}
	Set                               // a set display or set()
	String                            // a string literal that is not a docstring
	Format                            // an f-string or .format()
	Sort                              // sorted() or .sort()
	Print                             // print()
	Conditional                       // an if statement or conditional expression
	Try                               // a try statement
	Raise                             // a raise statement
	Lambda                            // a lambda
	Function                          // a def that is not a method
	Class                             // a class statement
	Method                            // a def inside a class whose first parameter is self
	Return                            // a return statement
	Import                            // an import statement
	Slice                             // a subscript with a colon
	Range                             // range()
	Arithmetic                        // - / // ** between operands; not + * %, which strings also have
	File                              // open()
	With                              // a with statement
	Generator                         // a yield
	Decorator                         // a decorator
	Docstring                         // a docstring
	Comment                           // a comment

	// The rest follow from the other fields of Facts; Compose sets them.
	Short    // one to four lines
	Long     // fifteen lines or more
	Several  // two functions or more
	Input    // the question came with input data
	Question // the question has a question mark
)

// featureNames are the names of the features in a style file, in the order of the bits.
var featureNames = []string{"loop", "while", "nested", "comprehension", "recursion", "list", "dict", "set", "string",
	"format", "sort", "print", "conditional", "try", "raise", "lambda", "function", "class", "method", "return", "import",
	"slice", "range", "arithmetic", "file", "with", "generator", "decorator", "docstring", "comment",
	"short", "long", "several", "input", "question"}

// features returns the features of the code and the ones that follow from the other fields.
func (f *Facts) features() Feature {
	has := f.Has &^ (Short | Long | Several | Input | Question)
	for _, derived := range []struct {
		bit Feature
		on  bool
	}{
		{Short, 1 <= f.Lines && f.Lines <= 4},
		{Long, f.Lines >= 15},
		{Several, len(f.Functions) >= 2},
		{Input, f.HasInput},
		{Question, f.IsQuestion},
	} {
		if derived.on {
			has |= derived.bit
		}
	}
	return has
}

// slotNames are the slots that a phrase can have. The index of a slot is its bit in phrase.slots.
var slotNames = []string{"ask", "asking", "keyword", "keywords", "function", "class", "module", "call", "name", "lines",
	"functions",
	"returner", "returned", "each", "over", "target", "value", "starter", "start", "appended", "appendee", "taker",
	"taken", "optional", "default", "derived", "base", "tested", "awaited", "step", "printed", "raised", "caught",
	"number", "keeper", "kept", "said", "word", "constant", "figure", "pair", "shared"}

// deedSlots are the slots that the two parts of a deed fill, by kind.
var deedSlots = map[string][2]string{
	"return":  {"returner", "returned"}, // a function, and the expression that it returns
	"loop":    {"each", "over"},         // the variable of a for statement, and what it iterates over
	"assign":  {"target", "value"},      // a variable, and the expression that it is set to
	"unpack":  {"pair", "shared"},       // two variables, and the expression that is unpacked into them
	"start":   {"starter", "start"},     // a variable that is set again later, and the number that it is first set to
	"fix":     {"constant", "figure"},   // a variable that is set once, and the number that it is set to
	"append":  {"appended", "appendee"}, // what is appended, and to what
	"take":    {"taker", "taken"},       // a function, and its parameters
	"default": {"optional", "default"},  // a parameter, and its default value
	"derive":  {"derived", "base"},      // a class, and its base
	"test":    {"tested"},               // the condition of an if statement
	"await":   {"awaited"},              // the condition of a while statement
	"step":    {"step"},                 // an augmented assignment
	"print":   {"printed"},              // the one argument of a print()
	"raise":   {"raised"},               // an exception
	"catch":   {"caught"},               // an exception
	"number":  {"number"},               // a number that the question states
	"word":    {"word"},                 // a word that question and code have as text
	"keep":    {"keeper", "kept"},       // a class, and an attribute that its __init__ sets, or a field of a dataclass
	"say":     {"said"},                 // a string that a print() shows, among other things
}

// sameSubject returns the slots that say the same as these slots, in another form.
func sameSubject(slots uint64) uint64 {
	const ask, keyword = 0b0011, 0b1100 // {ask} and {asking}, {keyword} and {keywords}
	switch {
	case slots&ask != 0 && slots&keyword != 0:
		return ask | keyword
	case slots&ask != 0:
		return ask
	case slots&keyword != 0:
		return keyword
	}
	return 0
}

// slots returns the value of every slot, "" for a slot that cannot be filled. pick(n) returns a number below n, which
// chooses among several candidates.
func (f *Facts) slots(pick func(int) int) []string {
	code := func(names []string) string {
		var fit []string
		for _, n := range names {
			if printableName(n) {
				fit = append(fit, n)
			}
		}
		if len(fit) == 0 {
			return ""
		}
		return "`" + fit[pick(len(fit))] + "`"
	}
	ask, keyword := f.Ask, f.Keyword
	if !printableAsk(ask) {
		ask = ""
	}
	if strings.Trim(keyword, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ- ") != "" || len(keyword) > 30 {
		keyword = ""
	}
	values := []string{
		ask,
		gerundClause(ask),
		keyword,
		plural(keyword),
		code(without(f.Functions, f.Properties...)),
		code(f.Classes),
		code(f.Imports),
		code(without(f.Calls, "print")), // it only shows what something else has worked out
		code(f.Names),
		count(f.Lines, "lines"),
		count(max(len(f.Functions), f.Definitions), "functions"),
	}
	values = append(values, make([]string, len(slotNames)-len(values))...)
	for _, kind := range slices.Sorted(maps.Keys(f.Deeds)) {
		var fit [][2]string
		for _, d := range f.Deeds[kind] {
			if printableCode(d[0]) && (deedSlots[kind][1] == "" || kind == "take" || printableCode(d[1])) {
				fit = append(fit, d)
			}
		}
		if len(fit) == 0 {
			continue
		}
		deed := fit[pick(len(fit))]
		for part, slot := range deedSlots[kind] {
			switch i := slices.Index(slotNames, slot); {
			case i < 0:
			case kind == "number" || kind == "take" && part == 1:
				values[i] = deed[part]
			case kind == "word":
				values[i] = `"` + deed[part] + `"`
			default:
				values[i] = "`" + deed[part] + "`"
			}
		}
	}
	return values
}

// without returns the names that are not in others.
func without(names []string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// printableCode reports whether an expression can be part of a sentence: short, on one line, and in no backticks.
func printableCode(s string) bool {
	return s != "" && len(s) <= 75 && s == cleanLine(s) && !strings.Contains(s, "`") &&
		!strings.HasPrefix(s, "_")
}

// count returns a number of things in words, or "" if n is less than 2, so that phrases can rely on a plural.
func count(n int, things string) string {
	if n < 2 || n > 99 {
		return ""
	}
	return numberWord(n) + " " + things
}

// printableName reports whether a name can be part of a sentence: a short identifier, with or without dots, that does
// not start with an underscore.
func printableName(s string) bool {
	if s == "" || len(s) > 32 || strings.HasPrefix(s, "_") {
		return false
	}
	for _, part := range strings.Split(s, ".") {
		if part == "" || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for _, r := range part {
			if !wordRune(r) {
				return false
			}
		}
	}
	return true
}

// printableAsk reports whether a clause can be part of a sentence as it is.
func printableAsk(s string) bool {
	return s != "" && len(s) <= maxAsk && s == cleanLine(s) && !strings.ContainsAny(s, "`[]{}<>\\*#|") &&
		!strings.ContainsAny(s[len(s)-1:], ".!?,;:")
}
