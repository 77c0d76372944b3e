package teacher

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"restyle/dataset"
	"restyle/voice"
)

// checkNames returns the ID of each check and what it requires, in the order of a report.
func checkNames() [][2]string {
	names := [][2]string{{UnreadableRow, "the source row can be read"}}
	for _, c := range sourceChecks {
		names = append(names, [2]string{c.id, c.what})
	}
	names = append(names, [2]string{"S4", "the source has no equal row before"}, [2]string{"A1", "the answer is complete"})
	for _, c := range textChecks {
		names = append(names, [2]string{c.id, c.what})
		if c.id == "A9" {
			names = append(names, [2]string{"A10", "the dataset stays varied"})
		}
	}
	return names
}

// A Report describes a finished dataset.
type Report struct {
	Rows      int
	Failed    map[string]int // rows that fail a check, by check
	Clean     int            // rows that fail no check
	Certified int            // rows with a valid certificate
	Failures  []Failure      // the first rows that fail a check or have no valid certificate, in order
	Openers   []Count        // first two words; the most frequent first, as in the other lists
	Firsts    []Count        // first five words
	Sentences []Count
	Devices   []Count // from the certificates
	Tone      []int   // rows by tone score; the last element is for its score and above
	Words     [3]int  // of prose per row: minimum, median, maximum
}

// A Failure says why one row fails.
type Failure struct {
	Row   int    // from 0
	Check string // ID of the check, or "certificate"
	Why   string
}

const namedFailures = 20 // in a report

// A Count is the number of rows that have something in common.
type Count struct {
	What string
	N    int
}

const toneBuckets = 21

// NewReport makes every check again, on rows from any source, and counts what the rows have in common. A row fails
// A10 if it says something that more rows of the whole dataset say than the diversity budget allows, or nearly
// repeats an earlier row. The code is in a language as [Run.Language] names it. If that is "", the code is in the
// language with which gen made the row, according to the row's certificate. If certs is nil, certificates are not
// checked.
func NewReport(style *voice.Style, rows []dataset.Rewritten, certs []dataset.Certificate, language string) Report {
	r := Report{Rows: len(rows), Failed: map[string]int{}, Tone: make([]int, toneBuckets)}
	openers := map[string]int{}
	firsts := map[string]int{}
	sentences := map[string]int{}
	devices := map[string]int{}
	ledger := newLedger(style)
	languages := languagesOf(rows, certs, language)
	says := func(i int) said {
		row := rows[i]
		s := saidIn(voice.Read(row.OutputPassiveAggressive), "")
		c := newCandidate(style, dataset.Question(row.Instruction, row.Input), splitIn(languages[i], row.OutputOriginal),
			row.OutputPassiveAggressive)
		if s.loose = c.loose(); c.parts.restated {
			s = s.without(saidIn(voice.Read(c.parts.Prose()), ""))
		}
		return s
	}
	for i := range rows {
		ledger.record(says(i))
	}
	certification := dataset.Certify(rows, certs)
	var words []int
	for i, row := range rows {
		clean := true
		fail := func(check, why string) {
			if len(r.Failures) < namedFailures {
				r.Failures = append(r.Failures, Failure{i, check, why})
			}
		}
		said := says(i)
		excess := ledger.excess(said, 0)
		if !ledger.texts.admit(said.shingles, said.bands) && excess == "" {
			excess = nearCopy
		}
		diverse := dataset.Check{ID: "A10", Pass: excess == "", Value: excess}
		for _, c := range append(Audit(style, languages[i], row), diverse) {
			if !c.Pass {
				r.Failed[c.ID]++
				fail(c.ID, c.Value)
				clean = false
			}
		}
		if clean {
			r.Clean++
		}
		if certification.Valid[i] {
			r.Certified++
		} else if certs != nil {
			fail("certificate", certification.Why(i))
		}
		openers[said.opener]++
		firsts[said.first]++
		for _, s := range said.sentences {
			sentences[s]++
		}
		t := style.Tone(voice.Read(row.OutputPassiveAggressive))
		r.Tone[min(t.Score, toneBuckets-1)]++
		words = append(words, t.Words)
	}
	for _, c := range certs {
		for _, k := range c.Checks {
			if _, device, ok := strings.Cut(k.Value, ", device "); ok && k.ID == "A10" {
				devices[device]++
			}
		}
	}
	r.Openers = ranked(openers)
	r.Firsts = ranked(firsts)
	r.Sentences = ranked(sentences)
	r.Devices = ranked(devices)
	if slices.Sort(words); len(words) > 0 {
		r.Words = [3]int{words[0], words[len(words)/2], words[len(words)-1]}
	}
	return r
}

// languagesOf returns the language of each row: the given one or, if it is "", the language in the row's certificate.
// Like [dataset.Certify], it finds the certificate by content, and for a row that was edited by its number, unless
// the row of that certificate is there.
func languagesOf(rows []dataset.Rewritten, certs []dataset.Certificate, given string) []string {
	languages := slices.Repeat([]string{given}, len(rows))
	if given != "" {
		return languages
	}
	there := map[string]bool{}
	for _, row := range rows {
		there[row.SHA256()] = true
	}
	ofHash, ofRow := map[string]string{}, map[int]string{}
	for _, c := range certs {
		i := slices.IndexFunc(c.Checks, func(k dataset.Check) bool { return k.ID == "S1" })
		if i < 0 {
			continue
		}
		tags := strings.Split(c.Checks[i].Value, ", ") // see sourceIsCode
		language := tags[0]
		switch {
		case language == "prose":
			language = NoLanguage
		case len(slices.Compact(tags)) > 1:
			language = AnyLanguage
		}
		ofHash[c.SHA256] = language
		if !there[c.SHA256] {
			ofRow[c.Row] = language
		}
	}
	for i, row := range rows {
		languages[i] = cmp.Or(ofHash[row.SHA256()], ofRow[i])
	}
	return languages
}

// ranked returns the counts in descending order.
func ranked(counts map[string]int) []Count {
	var out []Count
	for what, n := range counts {
		out = append(out, Count{what, n})
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.What, b.What)) })
	return out
}

// WriteTo writes the report as text.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	share := func(n int) string { return fmt.Sprintf("%5d  %5.1f%%", n, 100*float64(n)/float64(max(1, r.Rows))) }
	fmt.Fprintf(&b, "rows %d, with a valid certificate %d\n\nrows that fail a check\n", r.Rows, r.Certified)
	for _, c := range checkNames() {
		fmt.Fprintf(&b, "  %-4s %s  %s\n", c[0], share(r.Failed[c[0]]), c[1])
	}
	fmt.Fprintf(&b, "  %-4s %s\n", "none", share(r.Clean))
	if len(r.Failures) > 0 {
		fmt.Fprintf(&b, "\nthe first failures (%d shown), by row from 0\n", len(r.Failures))
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "  row %d, %s: %.300s\n", f.Row, f.Check, f.Why)
	}
	table := func(title string, counts []Count) {
		fmt.Fprintf(&b, "\n%s: %d different; the most frequent\n", title, len(counts))
		for _, c := range counts[:min(10, len(counts))] {
			fmt.Fprintf(&b, "  %s  %.90s\n", share(c.N), c.What)
		}
	}
	table("openers", r.Openers)
	table("first five words", r.Firsts)
	table("sentences", r.Sentences)
	if len(r.Devices) > 0 {
		table("devices", r.Devices)
	}
	fmt.Fprintf(&b, "\nwords of prose: %d to %d, median %d\n\nrows by tone score\n", r.Words[0], r.Words[2], r.Words[1])
	most := max(1, slices.Max(r.Tone))
	for score, n := range r.Tone {
		label := fmt.Sprint(score)
		if score == len(r.Tone)-1 {
			label += "+"
		}
		fmt.Fprintf(&b, "  %3s %5d %s\n", label, n, strings.Repeat("█", (n*50+most-1)/max(1, most)))
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// WriteSummary writes the yield of a run as text: the refusals, and why they happened.
func WriteSummary(w io.Writer, s Summary) {
	fmt.Fprintf(w, "source rows %d, accepted %d, answers %d, of which %d from the journal\n", s.Source, s.Accepted,
		s.Calls+s.Replayed, s.Replayed)
	if s.JudgeFailed > 0 {
		fmt.Fprintf(w, "answers without the judge's opinion %d; the last error: %s\n", s.JudgeFailed, s.JudgeError)
	}
	if len(s.Unfit)+len(s.Refused) == 0 {
		return
	}
	fmt.Fprintf(w, "  %-4s %8s %8s %8s\n", "", "unfit", "refused", "given up")
	for _, c := range append(checkNames(), [2]string{toneJudged, "the judge rates the tone high enough"}) {
		if u, r, g := s.Unfit[c[0]], s.Refused[c[0]], s.GivenUp[c[0]]; u+r+g > 0 {
			fmt.Fprintf(w, "  %-4s %8d %8d %8d  %s; first: %s\n", c[0], u, r, g, c[1], s.First[c[0]])
		}
	}
}

// TonePlot returns a bar chart of the rows by tone score, as SVG.
func (r Report) TonePlot() string {
	const width, height, left, bottom = 640, 320, 48, 40
	most := max(1, slices.Max(r.Tone))
	bar := float64(width-left-16) / float64(len(r.Tone))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">Tone score of %d rows</text>`+"\n", left, r.Rows)
	for i := range 5 {
		y := float64(height-bottom) - float64(i)*(height-bottom-36)/4
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+
			`<text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n",
			left, width-16, y, y, left-6, y+4, most*i/4)
	}
	for score, n := range r.Tone {
		h := float64(n) / float64(most) * (height - bottom - 36)
		x := left + float64(score)*bar
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#4a6fa5">`+
			`<title>score %d: %d rows</title></rect>`,
			x+1, height-bottom-h, bar-2, h, score, n)
		label := fmt.Sprint(score)
		if score == len(r.Tone)-1 {
			label += "+"
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x+bar/2, height-bottom+16, label)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">`+
		`score: weighted cues of the style's lexicon outside code</text>`+"\n</svg>\n",
		(left+width)/2, height-8)
	return b.String()
}

// Reasons returns the three checks that refused the most, for a progress line.
func (s Summary) Reasons() string {
	keys := slices.SortedFunc(maps.Keys(s.Refused), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Refused[b], s.Refused[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, k := range keys[:min(3, len(keys))] {
		parts = append(parts, fmt.Sprintf("%s %d", k, s.Refused[k]))
	}
	return strings.Join(parts, ", ")
}
