package python

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// recorded are the functions of the package, for the table in testdata/recorded.txt.
var recorded = map[string]func(args ...string) string{
	"check": func(a ...string) string { return errorText(Check(a[0])) },
	"looks": func(a ...string) string { return errorText(LooksLikePython(a[0])) },
	"act": func(a ...string) string { // which of these in the place of OP make something look like a program
		return strings.Join(slices.DeleteFunc(strings.Fields(a[1]), func(op string) bool {
			return LooksLikePython(strings.ReplaceAll(a[0], "OP", op)) != nil
		}), " ")
	},
	"equal": func(a ...string) string {
		ok, where := Equal(a[0], a[1])
		return strings.TrimSpace(fmt.Sprint(ok, " ", where))
	},
	"tokens": func(a ...string) string {
		tokens, err := Tokenize(a[0])
		var out []string
		for _, t := range tokens {
			out = append(out, fmt.Sprintf("%d:%d:%q", t.Kind, t.Line, t.Text))
		}
		return strings.Join(append(out, errorText(err)), " ")
	},
	"names": func(a ...string) string { return strings.Join(slices.Sorted(maps.Keys(Identifiers(a[0]))), " ") },
	"comment": func(a ...string) string { // a line, its remark, the next line …
		remarks := map[int]string{}
		for i := 1; i+1 < len(a); i += 2 {
			n, _ := strconv.Atoi(a[i])
			remarks[n] = a[i+1]
		}
		text, err := AddComments(a[0], remarks)
		if err != nil {
			return errorText(err)
		}
		return text
	},
}

func TestRecorded(t *testing.T) { expect.Recorded(t, "testdata/recorded.txt", recorded) }

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return "error: " + err.Error()
}
