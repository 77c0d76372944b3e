package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is a planted wrong answer: the reference answer with one change.
type mutant struct {
	sort string // what was changed: slot, wrong, data, number, operator, name, string, condition, statement or return
	code string
}

// swaps are words of Python, each with a word that is easily mistaken for it.
var swaps = map[string]string{
	"upper": "lower", "lower": "upper", "title": "upper", "capitalize": "lower", "swapcase": "upper", "strip": "lstrip",
	"lstrip": "rstrip", "rstrip": "lstrip", "startswith": "endswith", "endswith": "startswith", "find": "rfind",
	"index": "count", "count": "index", "isdigit": "isalpha", "isalpha": "isdigit",
	"isupper": "islower", "islower": "isupper", "split": "splitlines", "ljust": "rjust", "rjust": "ljust",
	"center": "ljust", "min": "max", "max": "min", "sum": "max", "any": "all", "all": "any", "len": "max",
	"sorted": "list", "reversed": "list", "abs": "int", "round": "int",
	"int": "float", "float": "int", "set": "list", "bin": "hex", "hex": "oct", "oct": "bin", "ord": "hash",
	"filter": "map", "divmod": "max", "and": "or", "or": "and", "True": "False", "False": "True", "not": "",
	"in": "not in", "break": "continue", "continue": "break", "elif": "if",
	"keys": "values", "values": "keys", "union": "intersection", "intersection": "union", "difference": "union",
	"issubset": "issuperset", "append": "remove", "add": "discard", "pop": "count", "popleft": "pop", "ceil": "floor",
	"floor": "ceil", "sqrt": "ceil", "gcd": "lcm", "lcm": "gcd",
	"mean": "median", "median": "mean", "ValueError": "ImportError", "ZeroDivisionError": "ImportError",
	"KeyError": "ImportError", "TypeError": "ImportError", "IndexError": "ImportError",
}

// operators are swapped in the same way.
var operators = map[string]string{
	"+": "-", "-": "+", "*": "+", "/": "*", "//": "/", "%": "//", "**": "*", "==": "!=", "!=": "==", "<": "<=", "<=": "<",
	">": ">=", ">=": ">", "+=": "-=", "-=": "+=", "*=": "+=", "//=": "-=", "&": "|", "|": "&", "^": "|", "<<": ">>",
	">>": "<<",
}

var tokenPattern = regexp.MustCompile(`(?P<string>[fFrRbB]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))|` +
	`(?P<number>\b\d+(?:\.\d+)?\b)|(?P<name>[A-Za-z_]\w*)|` +
	`(?P<operator>\*\*|//=|//|==|!=|<=|>=|->|\+=|-=|\*=|<<|>>|[-+*/%<>&|^])`)

// mutants returns wrong answers for a row, the most telling first, alternating between the sorts. Some may fail to
// parse, or happen to be right.
func mutants(row Row, other Slots) []mutant {
	groups := [][]mutant{slotMutants(row, other), wrongMutants(row), tokenMutants(row.Output), lineMutants(row.Output)}
	var all []mutant
	seen := map[string]bool{normalCode(row.Output): true}
	for taken := true; taken; {
		taken = false
		for i, group := range groups {
			if len(group) == 0 {
				continue
			}
			taken = true
			groups[i] = group[1:]
			if key := strings.TrimSpace(group[0].code); !seen[key] && !seen[normalCode(key)] {
				seen[key] = true
				all = append(all, group[0])
			}
		}
	}
	return all
}

// slotMutants returns answers with a parameter that is not in the question, like a recited answer.
func slotMutants(row Row, other Slots) []mutant {
	var found []mutant
	for name, value := range sortedSlots(row.slots) {
		if python(value) == python(other[name]) {
			continue
		}
		changed := Slots{}
		for k, v := range row.slots {
			changed[k] = v
		}
		changed[name] = other[name]
		if code, err := fill(row.kind.Code, changed); err == nil {
			found = append(found, mutant{"slot", code})
		}
	}
	return found
}

// wrongMutants returns the wrong answers from the kind's file.
func wrongMutants(row Row) []mutant {
	var found []mutant
	for _, template := range row.kind.Wrong {
		if code, err := fill(template, row.slots); err == nil {
			found = append(found, mutant{"wrong", code})
		}
	}
	return found
}

// dataPattern matches lines that only store given data. The result may not depend on a change in such a line.
var dataPattern = regexp.MustCompile(`(?m)^\w+ = [\[{("\d-][^(\n]*$`)

// tokenMutants returns answers with one changed token.
func tokenMutants(code string) []mutant {
	var found []mutant
	stored := dataPattern.FindAllStringIndex(code, -1)
	for _, at := range tokenPattern.FindAllStringSubmatchIndex(code, -1) {
		token := code[at[0]:at[1]]
		inData := slices.ContainsFunc(stored, func(line []int) bool { return line[0] <= at[0] && at[1] <= line[1] })
		replace := func(sort, with string) {
			if inData {
				sort = "data"
			}
			found = append(found, mutant{sort, code[:at[0]] + with + code[at[1]:]})
		}
		switch {
		case at[2] >= 0:
			quote := token[len(token)-1:]
			replace("string", strings.TrimSuffix(token, quote)+"x"+quote)
		case at[4] >= 0:
			if n, err := strconv.Atoi(token); err == nil {
				replace("number", strconv.Itoa(n+1))
				if n > 0 {
					replace("number", strconv.Itoa(n-1))
				}
			} else {
				replace("number", token+"5")
			}
		case at[6] >= 0:
			if with, ok := swaps[token]; ok {
				replace("name", with)
			}
		default:
			if with, ok := operators[token]; ok {
				replace("operator", with)
			}
		}
	}
	return found
}

var (
	conditionPattern = regexp.MustCompile(`^(\s*(?:el)?if |\s*while )(.*):$`)
	returnPattern    = regexp.MustCompile(`^(\s*)return .*$`)
)

// lineMutants returns answers that drop a statement, invert a condition or return nothing.
func lineMutants(code string) []mutant {
	var found []mutant
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		replace := func(sort, with string) {
			changed := append([]string{}, lines...)
			changed[i] = with
			found = append(found, mutant{sort, strings.Join(changed, "\n")})
		}
		trimmed := strings.TrimSpace(line)
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if m := conditionPattern.FindStringSubmatch(line); m != nil {
			replace("condition", m[1]+"not ("+m[2]+"):")
		} else if m := returnPattern.FindStringSubmatch(line); m != nil {
			replace("return", m[1]+"return None")
		} else if trimmed != "" && !strings.HasSuffix(trimmed, ":") && !strings.HasPrefix(trimmed, "import ") &&
			!strings.HasPrefix(trimmed, "from ") && trimmed != "pass" {
			replace("statement", indent+"pass")
		}
	}
	return found
}
