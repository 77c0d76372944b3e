package results

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/plot"
	"restyle/internal/sidebyside"
)

// A Section is what a page says about a table besides its rows.
type Section struct {
	Headline string   // the sentence that a reader wants first, or ""
	Words    []string // sentences
	Pictures []Picture
}

// A Picture is an SVG file of the page.
type Picture struct {
	Name string // of the file, without .svg
	Alt  string
	SVG  []byte
}

// Pages writes a CSV file and pictures for each table, and a README.md for all of them. Only the CSV files have the
// cells that are too noisy to mean anything.
func (b *Book) Pages(title string, section func(t *Table) Section) error {
	b, title = b.clean(), cli.Clean(title)
	var md strings.Builder
	fmt.Fprintf(&md, "# %s\n\n", inert(title))
	sections := make([]Section, len(b.Tables))
	for i, t := range b.Tables {
		sections[i] = section(t.Quiet())
	}
	b.opening(&md, sections)
	for i, t := range b.Tables {
		if err := b.write(t.Name+".csv", t.CSV()); err != nil {
			return err
		}
		s, t := sections[i], t.Quiet()
		fmt.Fprintf(&md, "\n## %s\n\n", inert(t.Title))
		for _, p := range s.Pictures {
			if err := b.write(p.Name+".svg", p.SVG); err != nil {
				return err
			}
			fmt.Fprintf(&md, "![%s](%s.svg)\n\n", inert(p.Alt), p.Name)
		}
		for _, w := range s.Words {
			fmt.Fprintf(&md, "%s\n\n", inert(w))
		}
		if t.shown() {
			t.write(&md)
		}
		fmt.Fprintf(&md, "All columns: `%s.csv`, which `bench page` writes. Measured by\n\n%s\n", t.Name,
			sidebyside.Fenced(t.Command))
	}
	return b.write("README.md", []byte(md.String()))
}

// opening writes what a reader wants first: the results in a sentence each, the contents and the machine.
func (b *Book) opening(md *strings.Builder, sections []Section) {
	for i, t := range b.Tables {
		line := fmt.Sprintf("[%s](#%s)", inert(t.Title), url.PathEscape(anchor(t.Title)))
		if h := sections[i].Headline; h != "" {
			line += ": " + inert(h)
		}
		fmt.Fprintf(md, "- %s\n", line)
	}
	fmt.Fprintf(md, "\n%s\n", strings.Join(inertAll(b.Machine.lines()), "  \n"))
}

// anchor returns the name that GitHub gives a heading.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// foldRows is how many rows of a table are shown before the page folds it.
const foldRows = 30

// mostRows is the maximum number of rows of a table in README.md, which refers to the CSV file for a longer table.
const mostRows = 200

// shown reports whether the page has the table's rows: some column besides the keys is described.
func (t *Table) shown() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.About != "" && c.Role != Key })
}

// write writes the rows, which rows are missing and why, and what the columns are.
func (t *Table) write(md *strings.Builder) {
	measured, why := *t, t.role(Why)
	measured.Rows = nil
	var missing []string
	for _, r := range t.Rows {
		if r.Text(why) == "" {
			measured.Rows = append(measured.Rows, r)
		} else {
			missing = append(missing, t.ID(r)+": "+r.Text(why))
		}
	}
	n := cli.Count(len(measured.Rows), "row")
	switch {
	case len(measured.Rows) > mostRows:
		fmt.Fprintf(md, "Its %s are in `%s.csv`, which `bench page` writes.\n", n, t.Name)
	case len(measured.Rows) > foldRows:
		fmt.Fprintf(md, "<details><summary>%s</summary>\n\n%s\n</details>\n", n, measured.Markdown())
	default:
		md.WriteString(measured.Markdown())
	}
	var about []string
	for _, c := range t.Columns {
		if c.About != "" && c.Role != Key && c.Role != Why {
			about = append(about, fmt.Sprintf("%s: %s", c.head(), c.About))
		}
	}
	if missing != nil {
		fmt.Fprintf(md, "\n<details><summary>Not measured: %s</summary>\n\n- %s\n\n</details>\n",
			cli.Count(len(missing), "row"), strings.Join(inertAll(missing), "\n- "))
	}
	fmt.Fprintf(md, "\n<details><summary>What the columns are</summary>\n\n- %s\n\n</details>\n\n",
		strings.Join(inertAll(about), "\n- "))
}

// active replaces what Markdown takes for HTML, links, pictures and their definitions, in one line.
var active = strings.NewReplacer("<", "&lt;", "](", "]&#40;", "][", "]&#91;", "]:", "]&#58;", "\n", " ")

// inert returns text for a line of Markdown in which nothing is HTML, a link or a picture: anyone may have named what
// was measured, and where.
func inert(text string) string { return active.Replace(text) }

func inertAll(list []string) (out []string) {
	for _, s := range list {
		out = append(out, inert(s))
	}
	return out
}

// clean returns a copy of the book in which no text has characters that a terminal or a viewer obeys.
func (b *Book) clean() *Book {
	c := *b
	for _, text := range []*string{&c.Machine.Device, &c.Machine.CPU, &c.Machine.OS, &c.Machine.Level, &c.Machine.Version,
		&c.Machine.Note} {
		*text = cli.Clean(*text)
	}
	c.Tables = make([]*Table, len(b.Tables))
	for i, t := range b.Tables {
		c.Tables[i] = t.clean()
	}
	return &c
}

func (t *Table) clean() *Table {
	c := *t
	c.Title, c.Command = cli.Clean(t.Title), cli.Clean(t.Command)
	c.Columns = slices.Clone(t.Columns)
	for i := range c.Columns {
		of := &c.Columns[i]
		of.Name, of.Unit, of.About = cli.Clean(of.Name), cli.Clean(of.Unit), cli.Clean(of.About)
	}
	c.Rows = make([]Row, len(t.Rows))
	for i, r := range t.Rows {
		c.Rows[i] = Row{}
		for name, v := range r {
			if text, ok := v.(string); ok {
				v = cli.Clean(text)
			}
			c.Rows[i][cli.Clean(name)] = v
		}
	}
	return &c
}

// lines describes a machine for people.
func (m Machine) lines() (lines []string) {
	device := m.Device
	if m.Memory > 0 {
		device += fmt.Sprintf(" with %.0f GiB", float64(m.Memory)/(1<<30))
	}
	if m.Level != "" {
		device += fmt.Sprintf(", %s, %d threads", m.Level, m.Threads)
	}
	lines = []string{"Device: " + device, "Processor: " + m.CPU + ", " + m.OS, "Version: " + m.Version}
	if m.Note != "" {
		lines = append(lines, m.Note)
	}
	return lines
}

// head returns a column's name with its unit.
func (c Column) head() string {
	s := strings.ReplaceAll(c.Name, "_", " ")
	if c.Unit != "" {
		s += ", " + c.Unit
	}
	return s
}

// Markdown returns the table as one of Markdown, without columns that nothing was measured for or that are not
// described, and without the reasons for missing rows if there are none.
func (t *Table) Markdown() string {
	rows := make([][]string, len(t.Rows)+2)
	for _, c := range t.Columns {
		some := slices.ContainsFunc(t.Rows, func(r Row) bool { _, ok := r[c.Name]; return ok })
		if c.About == "" && c.Role != Key || !some {
			continue
		}
		rule := "---:"
		if c.Type == Text {
			rule = "---"
		}
		rows[0], rows[1] = append(rows[0], " "+inCell(c.head())+" "), append(rows[1], rule)
		for i, r := range t.Rows {
			text := c.cell(r)
			if c.Role == Time && text == "" && t.Noisy(r) {
				text = "too noisy"
			}
			rows[i+2] = append(rows[i+2], " "+inCell(text)+" ")
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		fmt.Fprintf(&b, "|%s|\n", strings.Join(cells, "|"))
	}
	return b.String()
}

// inCell returns text for a cell of Markdown.
func inCell(text string) string { return strings.ReplaceAll(inert(text), "|", `\|`) }

// cell formats a cell for people: shares in percent.
func (c Column) cell(r Row) string {
	v, ok := r[c.Name]
	n, number := v.(float64)
	switch {
	case !ok:
		return ""
	case !number:
		return v.(string)
	case c.Unit == "%":
		return strconv.FormatFloat(100*n, 'f', percentDecimals(n), 64)
	case c.Type == Integer:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return plot.Digits(n, 3)
}

func percentDecimals(share float64) int {
	if math.Abs(share) < 0.095 {
		return 1
	}
	return 0
}

// CSV returns all cells of a table, in full precision.
func (t *Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	line := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		line[i] = cli.Cell(c.Name)
	}
	w.Write(line) // it writes into memory and cannot fail, nor can the next ones
	for _, r := range t.Rows {
		for i, c := range t.Columns {
			switch v := r[c.Name].(type) {
			case string:
				line[i] = cli.Cell(v)
			case float64:
				line[i] = strconv.FormatFloat(v, 'g', -1, 64)
			default:
				line[i] = ""
			}
		}
		w.Write(line)
	}
	w.Flush()
	return b.Bytes()
}
