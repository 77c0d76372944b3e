package voice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// recorded are the functions of the package, for the table in testdata/recorded.txt.
var recorded = map[string]func(args ...string) string{
	"ask": func(a ...string) string {
		ask, ok := Ask(a[0])
		return strings.TrimSpace(fmt.Sprint(ok, " ", ask))
	},
	"keyword": func(a ...string) string { return Keyword(a[0]) },
	"tokens": func(a ...string) string {
		var out []string
		for _, t := range tokens(a[0], -1) {
			if t.code {
				t.word = "`" + t.word + "`"
			}
			out = append(out, t.word)
		}
		return strings.Join(out, " ")
	},
	"prose": func(a ...string) string { return Prose(a[0]) },
	"sentences": func(a ...string) string {
		return fmt.Sprintf("%q", Read(a[0]).Sentences())
	},
	"runs": func(a ...string) string {
		var out []string
		for run := range Read(a[0]).Runs() {
			out = append(out, strings.Join(run, " "))
		}
		return strings.Join(out, "; ")
	},
	"first": func(a ...string) string { return Read(a[0]).Opener() + "; " + Read(a[0]).FirstFive() },
	"pieces": func(a ...string) string {
		var out []string
		for p := range Pieces(a[0]) {
			out = append(out, fmt.Sprintf("%+v", p))
		}
		for p := range NestedPieces(a[0]) {
			out = append(out, fmt.Sprintf("nested %+v", p))
		}
		return strings.Join(out, ", ")
	},
	"english": func(a ...string) string { return fmt.Sprintf("%.3f", Read(a[0]).English()) },
	"tone": func(a ...string) string { // of a style and a text
		s, err := Parse("x.style", []byte(a[0]))
		if err != nil {
			return "error: " + err.Error()
		}
		text := Read(a[1])
		tone := s.Tone(text)
		return fmt.Sprintf("%d %q %.2f %d, %v, banned %q, repeats %t, order %.2f", tone.Score, tone.Cues, tone.Density,
			tone.Words, s.Accepts(tone), s.BannedIn(text), s.Repeats(text), s.Order(text))
	},
	"parse": func(a ...string) string { // a style, or what to replace in small, and with what
		text := a[0]
		if len(a) > 1 {
			text = strings.Replace(small, a[0], a[1], 1)
		}
		s, err := Parse("x.style", []byte(text))
		if err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprintf("%q %q %d %d %v %v %v system %q openers %q devices %q examples %q skeletons %q", s.Name, s.About,
			s.MinScore, s.MinCues, s.Density, s.Repeat, s.Words, s.System, s.Openers, s.Devices, s.Examples, s.Skeletons)
	},
	"slots": func(a ...string) string { // of facts
		f := factsOf(a[0])
		var out []string
		for i, v := range f.slots(func(n int) int { return n - 1 }) {
			if v != "" {
				out = append(out, slotNames[i]+"="+v)
			}
		}
		for i, name := range featureNames {
			if f.features()&(1<<i) != 0 {
				out = append(out, name)
			}
		}
		return strings.Join(out, "; ")
	},
	"gerund":  func(a ...string) string { return eachWord(a[0], gerund) },
	"gerunds": func(a ...string) string { return gerundClause(a[0]) },
	"plural":  func(a ...string) string { return eachWord(a[0], plural) },
	"number": func(a ...string) string {
		return eachWord(a[0], func(w string) string {
			n, _ := strconv.Atoi(w)
			return numberWord(n)
		})
	},
	"count": func(a ...string) string { // nothing in words
		n, _ := strconv.Atoi(a[0])
		return count(n, "lines")
	},
	"distance": func(a ...string) string { return strconv.Itoa(editDistance(a[0], a[1], 4)) },
	"suggest":  func(a ...string) string { return suggest(a[0], a[1:]) },
	"compose": func(a ...string) string { // a phrase bank, an opener, a skeleton, and facts; with four seeds
		return eachSeed(a, func(s *Style, f Facts, seed uint64, skeleton int) string {
			text, err := s.Compose(f, Assignment{Seed: seed, Opener: a[1], Skeleton: skeleton})
			if err != nil {
				return "error: " + err.Error()
			}
			return text
		})
	},
	"remark": func(a ...string) string { // a phrase bank, a remark that is taken, 0, and facts; with four seeds
		return eachSeed(a, func(s *Style, f Facts, seed uint64, _ int) string {
			return s.Comment(f, seed, strings.Split(a[1], ";"))
		})
	},
}

func TestRecorded(t *testing.T) { expect.Recorded(t, "testdata/recorded.txt", recorded) }

func eachWord(text string, f func(string) string) string {
	var out []string
	for _, w := range strings.Split(text, " ") {
		out = append(out, f(w))
	}
	return strings.Join(out, " ")
}

// bankHead starts the style of a phrase bank.
const bankHead = "name: c\nscore: 0\ncues: 0\ndensity: 0 100\nwords: 1 200\n[lexicon]\n1 fine\n1 small\n[banned]\n" +
	"drat\n[skeletons]\nopener a / code / b\nopener / code / a b a a a\n[opener]\nFine, then.\nFine, then: well.\n" +
	"So what, {ask}.\nSo what.\n"

// eachSeed calls f with a style and facts that are given as text.
func eachSeed(a []string, f func(s *Style, f Facts, seed uint64, skeleton int) string) string {
	s, err := Parse("x.style", []byte(bankHead+a[0]))
	if err != nil {
		return "error: " + err.Error()
	}
	skeleton, _ := strconv.Atoi(a[2])
	var out []string
	for seed := range uint64(4) {
		out = append(out, f(s, factsOf(a[3]), seed, skeleton))
	}
	if len(slices.Compact(slices.Clone(out))) == 1 {
		return out[0]
	}
	return strings.Join(out, " // ")
}

// factsOf reads facts such as "ask=add it; functions=f g; has=loop list; return=f:a + 1".
func factsOf(text string) (f Facts) {
	f.Deeds = map[string][][2]string{}
	for _, field := range strings.Split(text, "; ") {
		key, value, _ := strings.Cut(field, "=")
		list := strings.Fields(value)
		switch key {
		case "ask":
			f.Ask = value
		case "keyword":
			f.Keyword = value
		case "asked":
			f.IsQuestion = true
		case "input":
			f.HasInput = true
		case "lines":
			f.Lines, _ = strconv.Atoi(value)
		case "functions":
			f.Functions = list
		case "properties":
			f.Properties = list
		case "classes":
			f.Classes = list
		case "imports":
			f.Imports = list
		case "calls":
			f.Calls = list
		case "names":
			f.Names = list
		case "code":
			f.Placeholders = list
		case "has":
			for _, name := range list {
				f.Has |= 1 << slices.Index(featureNames, name)
			}
		default:
			first, second, _ := strings.Cut(value, ":")
			f.Deeds[key] = append(f.Deeds[key], [2]string{first, second})
		}
	}
	return f
}
