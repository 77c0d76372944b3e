package parity

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Row is one comparison or, in a summary, the worst of several of one kind.
type Row struct {
	Folder string `json:"folder"`
	Run    string `json:"run,omitempty"` // how it was computed: "fp32, fused"
	Figure string `json:"figure"`        // the kind of value: "gradient"
	At     string `json:"at,omitempty"`  // the file and name of the value
	Count  int    `json:"count"`         // the number of comparisons
	Failed int    `json:"failed,omitempty"`
	Error  Number `json:"error"`
	Limit  Number `json:"limit"`
	OK     bool   `json:"ok"`
	Note   string `json:"note,omitempty"` // what is wrong, if no number expresses it
}

// A Number is a float64 in JSON. NaN and infinities become strings.
type Number float64

// MarshalJSON returns the number, or a string if it is not finite.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(fmt.Sprint(f))
	}
	return json.Marshal(float64(n))
}

// Counts are the numbers of recorded values by use. Present is the sum of the others except Inputs.
type Counts struct {
	Present     int `json:"present"`
	Compared    int `json:"compared"`
	Limits      int `json:"used_as_limit"` // errors of other programs, which limit ours
	LeftOut     int `json:"left_out"`      // by an option
	Unsupported int `json:"not_yet_supported"`
	Open        int `json:"passed_over"` // unused: each is a failure
	Inputs      int `json:"inputs"`      // inputs of the other program, and their descriptions
}

func (c *Counts) add(l ledger) {
	for _, f := range l.fates {
		if f != input {
			c.Present++
		}
		switch f {
		case open:
			c.Open++
		case compared:
			c.Compared++
		case yardstick:
			c.Limits++
		case input:
			c.Inputs++
		case leftOut:
			c.LeftOut++
		case unsupported:
			c.Unsupported++
		}
	}
}

// A Report is the result of Run.
type Report struct {
	Device  string   `json:"device"`
	Folders []string `json:"folders"`
	Counts  Counts   `json:"figures"`
	// Partial reports that an option left something out.
	Partial bool `json:"partial"`
	OK      bool `json:"ok"`
	// Failed is the number of comparisons that exceeded their limit or could not be made.
	Failed int `json:"failed"`
	// Rows are all comparisons in order. Summary joins them.
	Rows []Row `json:"-"`
	// Limits, Unsupported and LeftOut name the values counted there, each kind once.
	Limits      []string `json:"used_as_limit,omitempty"`
	Unsupported []string `json:"not_yet_supported,omitempty"`
	LeftOut     []string `json:"left_out,omitempty"`
	// Texts are directories with recordings of texts, which the tests of other packages compare.
	Texts []string `json:"texts,omitempty"`
}

func (r *Report) add(row Row) {
	row.Count = 1
	row.OK = row.Note == "" && row.Error <= row.Limit
	if !row.OK {
		row.Failed = 1
		r.Failed++
	}
	r.Rows = append(r.Rows, row)
}

// Summary returns one row per directory, run and kind of value: the row with the largest error relative to its limit,
// with the number of comparisons and of failures. It does not join failures without a number.
func (r *Report) Summary() []Row {
	type key struct{ folder, run, figure, note string }
	at := map[key]int{}
	var rows []Row
	for _, row := range r.Rows {
		k := key{row.Folder, row.Run, row.Figure, row.Note}
		i, seen := at[k]
		if !seen {
			at[k] = len(rows)
			rows = append(rows, row)
			continue
		}
		s := &rows[i]
		n, failed := s.Count+1, s.Failed+row.Failed
		if row.share() > s.share() {
			*s = row
		}
		s.Count, s.Failed = n, failed
	}
	return rows
}

// share returns the error relative to the limit. It returns +Inf if the error is NaN.
func (r Row) share() float64 {
	switch share := float64(r.Error / r.Limit); {
	case r.Error == 0:
		return 0
	case math.IsNaN(share):
		return math.Inf(1)
	default:
		return share
	}
}

// Write prints the rows as a table and, below it, how many values were recorded and how many were compared.
func (r *Report) Write(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tRUN\tFIGURE\tOF\tERROR\tLIMIT\tVERDICT\tWORST")
	for _, row := range rows {
		verdict := "ok"
		switch {
		case row.Note != "":
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t\t\tFAILED\t%s\n", row.Folder, row.Run, row.Figure, row.Count,
				strings.TrimSpace(row.At+" "+row.Note))
			continue
		case !row.OK:
			verdict = fmt.Sprintf("BEYOND (%d)", row.Failed)
		case row.Error == 0:
			row.At = "" // all are equally good
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", row.Folder, row.Run, row.Figure, row.Count, short(row.Error),
			short(row.Limit), verdict, row.At)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	c := r.Counts
	lines := []string{"", fmt.Sprintf("directories: %d, comparisons: %d, failed: %d", len(r.Folders), len(r.Rows),
		r.Failed)}
	for _, part := range []struct {
		count int
		what  string
		names []string
	}{
		{c.Limits, "are other programs' own errors, which serve as limits", r.Limits},
		{c.Unsupported, "are not yet supported", r.Unsupported},
		{c.LeftOut, "were left out", r.LeftOut},
	} {
		if part.count > 0 {
			lines = append(lines, fmt.Sprintf("values that %s (%d): %s", part.what, part.count, strings.Join(part.names, ", ")))
		}
	}
	if len(r.Texts) > 0 {
		lines = append(lines, fmt.Sprintf("texts, not compared here but by %s: %s", textTests, strings.Join(r.Texts, ", ")))
	}
	if r.Partial {
		lines = append(lines, "this was only a part: flags left something out")
	}
	lines = append(lines, fmt.Sprintf("recorded values: %d: %d compared, %d used as limits, %d not yet supported, %d "+
		"left out, %d passed over",
		c.Present, c.Compared, c.Limits, c.Unsupported, c.LeftOut, c.Open))
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

var (
	ordinal = regexp.MustCompile(`([ .])\d+\.`) // the number of a line, a row or a case
	section = regexp.MustCompile(`^(\S+\.json (noise|mistakes|gradients|greedy|sgd|adamw|bfloat16\.figures|` +
		`bfloat16\.hidden_error|forward\.rows|files))\b.*`)
)

// few appends the kinds of values to list. Names that differ only in their parameter, row or line are one kind, and so
// is a file of tensors.
func few(list []string, folder string, names []string) []string {
	for _, name := range names {
		name, _, _ = strings.Cut(name, ".model.")
		name, _, _ = strings.Cut(name, ".lm_head.")
		name = ordinal.ReplaceAllString(section.ReplaceAllString(name, "$1"), "${1}*.")
		if file, _, ok := strings.Cut(name, ".safetensors "); ok {
			name = file + ".safetensors"
		}
		if name = path.Join(folder, name); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func short(n Number) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g", float64(n))
}

// globs reports whether a path, or its last element, matches a pattern.
func globs(pattern, name string) bool {
	whole, _ := path.Match(pattern, name)
	last, _ := path.Match(pattern, path.Base(name))
	return whole || last
}
