package teacher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/voice"
)

// recorded has the functions with which the checks read prose and code.
var recorded = map[string]func(args ...string) string{
	"quantities": func(a ...string) string { return inARow(quantities(a[0]), spellQuantity) },
	"moments": func(a ...string) string {
		found, rest := moments(a[0])
		return inARow(found, func(m moment) string {
			return m.text + ": " + strings.Join(m.keys, " or ") + " of " + inARow(m.parts, spellQuantity)
		}) + "; rest " + strconv.Itoa(len(strings.Fields(rest)))
	},
	"same": func(a ...string) string { // whether two texts have the same quantity or moment, from either side
		p, q := quantities(a[0]), quantities(a[1])
		m, _ := moments(a[0])
		n, _ := moments(a[1])
		if len(m) > 0 && len(n) > 0 {
			return fmt.Sprint(m[0].same(n[0]), n[0].same(m[0]), m[0].within(n[0]), n[0].within(m[0]))
		}
		if len(p) == 0 || len(q) == 0 {
			return "none"
		}
		return fmt.Sprint(p[0].same(q[0]), q[0].same(p[0]))
	},
	"facts": func(a ...string) string {
		f := voice.Facts{}
		for _, code := range a {
			readCode(&f, code)
		}
		return spellFacts(f)
	},
	"question": func(a ...string) string {
		var f voice.Facts
		readQuestion(&f, a[0], a[1], a[2:])
		return spellFacts(f)
	},
	"remarkLines": func(a ...string) string {
		return inARow(remarkLines(a[0]), func(l codeLine) string { return fmt.Sprint(l.number, " ", l.text) })
	},
	"prose": func(a ...string) string {
		f := readProse(a[0])
		return fmt.Sprintf("%q, %d items, %s", f.exact, f.items, strings.Join(strings.Fields(f.plain), " "))
	},
	"names": func(a ...string) string {
		return inARow(properNames(a[0], a[1]), func(s []string) string { return strings.Join(s, " ") })
	},
	"kept": func(a ...string) string { return verdictsOf("A15 A16 A17 A18 A19 A20", NoLanguage, a...) },
	"around": func(a ...string) string {
		return verdictsOf("S1 S2 A1 A2 A3 A4 A5 A6 A11 A12 A14", a[0], a[1:]...)
	},
	"program": func(a ...string) string {
		return fmt.Sprint(HasCode(a[0]), isProgram(a[0]), looksLikeCode(a[0]))
	},
	"lines": func(a ...string) string { // which of these lines only programs have
		return strings.Join(slices.DeleteFunc(strings.Split(a[0], "; "), func(line string) bool {
			return !programLine.MatchString(line)
		}), "; ")
	},
	"split": func(a ...string) string {
		p := splitIn(a[0], a[1])
		return fmt.Sprintf("%q %q other %q tags %q restated %t whole %t open %t python %t", p.Blocks, p.Text, p.Other, p.Tags,
			p.restated, p.whole, p.open, p.isPython())
	},
	"join": func(a ...string) string {
		text, err := Parts{Blocks: a[1:]}.join(a[0])
		return orError(text, err)
	},
	"whole": func(a ...string) string {
		ok, why := endsWhole(newCandidate(nil, "", Parts{}, a[0]))
		return fmt.Sprint(ok, ": ", why)
	},
	"meanings": func(a ...string) string {
		return strings.Join(slices.Sorted(maps.Keys(meanings(a[0]))), " ")
	},
	"remarks": func(a ...string) string {
		blocks, err := addRemarks(a[1:], a[0])
		return orError(fmt.Sprintf("%q", blocks), err)
	},
	"opinion": func(a ...string) string {
		o, err := parseOpinion(a[0])
		return orError(fmt.Sprintf("%+v", o), err)
	},
	"unwrap": func(a ...string) string {
		body, comments, err := unwrap(a[0])
		return orError(fmt.Sprintf("%q %q", body, comments), err)
	},
	"result": func(a ...string) string { // a line of batch results; K is a key
		key, answer, deviations, err := parseResult([]byte(strings.Replace(a[0], "K", strings.Repeat("a1", 32), 1)))
		return fmt.Sprintf("%.4s %+v %q %v", key, answer, deviations, err)
	},
	"shortened": func(a ...string) string { return shortened([]byte(a[0])) },
	"firstLine": func(a ...string) string { return firstLine(a[0]) },
	"sentences": func(a ...string) string { return fmt.Sprintf("%q", slices.Collect(sentences(a[0]))) },
	"invisible": func(a ...string) string {
		return inARow([]rune(a[0]), func(r rune) string { return fmt.Sprintf("%x %t", r, invisible(r)) })
	},
}

func TestReadings_AsRecorded(t *testing.T) { expect.Recorded(t, "testdata/readings.txt", recorded) }

func inARow[T any](all []T, spell func(T) string) string {
	var out []string
	for _, x := range all {
		out = append(out, spell(x))
	}
	return strings.Join(out, ", ")
}

func orError(text string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

// spellQuantity shows a quantity: "1.5 hour" is loose, "1.5 hour!" a fact, "-3#!" in digits.
func spellQuantity(q quantity) string {
	var b strings.Builder
	if q.negative {
		b.WriteString("-")
	}
	b.WriteString(inARow(q.values, func(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }))
	if q.digits {
		b.WriteString("#")
	}
	if q.unit != "" {
		b.WriteString(" " + q.unit)
	}
	if q.fact {
		b.WriteString("!")
	}
	return b.String() + " " + q.String()
}

// featureNames lists the names of voice's features, in the order of their bits.
var featureNames = strings.Fields("loop while nested comprehension recursion list dict set string format sort print " +
	"conditional try raise lambda function class method return import slice range arithmetic file with generator " +
	"decorator docstring comment")

func spellFacts(f voice.Facts) string {
	var has []string
	for i, name := range featureNames {
		if f.Has&(1<<i) != 0 {
			has = append(has, name)
		}
	}
	out := fmt.Sprintf("%d lines, %s", f.Lines, strings.Join(has, " "))
	for _, l := range []struct {
		name string
		list []string
	}{{"functions", f.Functions}, {"properties", f.Properties}, {"classes", f.Classes}, {"imports", f.Imports},
		{"calls", f.Calls}, {"names", f.Names}} {
		if len(l.list) > 0 {
			out += fmt.Sprintf("; %s %s", l.name, strings.Join(l.list, " "))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Deeds)) {
		out += fmt.Sprintf("; %s %q", kind, f.Deeds[kind])
	}
	return out
}

// verdictsOf returns the verdicts of the checks named by ids on a rewrite.
func verdictsOf(ids, language string, a ...string) string {
	question, answer, rewrite := a[0], a[1], a[2]
	style, err := voice.Builtin(voice.Default)
	if err != nil {
		return err.Error()
	}
	c := newCandidate(style, question, splitIn(language, answer), rewrite)
	var out []string
	verdicts, _ := run(sourceChecks, c)
	rest, _ := run(textChecks, c)
	for _, k := range append(verdicts, rest...) {
		if strings.Contains(" "+ids+" ", " "+k.ID+" ") {
			out = append(out, fmt.Sprintf("%s %t %s", k.ID, k.Pass, k.Value))
		}
	}
	return strings.Join(out, "; ")
}
