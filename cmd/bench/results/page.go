package results

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/plot"
)

// A Section is what a page says about a table besides its rows.
type Section struct {
	Words    []string // sentences
	Pictures []Picture
}

// A Picture is an SVG file of the page.
type Picture struct {
	Name string // of the file, without .svg
	Alt  string
	SVG  []byte
}

// Pages writes, for each table, a CSV file and its pictures, and for all of them README.md and index.html. index.html
// holds its pictures, so it can be opened alone and from anywhere.
func (b *Book) Pages(title string, section func(t *Table) Section) error {
	var md, page strings.Builder
	fmt.Fprintf(&md, "# %s\n\n", title)
	fmt.Fprintf(&page, htmlHead, html.EscapeString(title), html.EscapeString(title))
	machine := b.Machine.lines()
	for _, l := range machine {
		fmt.Fprintf(&md, "- %s\n", l)
	}
	fmt.Fprintf(&page, "<ul><li>%s</ul>\n", strings.Join(escaped(machine), "<li>"))
	for _, t := range b.Tables {
		if err := b.write(t.Name+".csv", t.CSV()); err != nil {
			return err
		}
		s := section(t)
		fmt.Fprintf(&md, "\n## %s\n\n", t.Title)
		fmt.Fprintf(&page, "<h2 id=%q>%s</h2>\n", t.Name, html.EscapeString(t.Title))
		for _, w := range s.Words {
			fmt.Fprintf(&md, "%s\n\n", w)
			fmt.Fprintf(&page, "<p>%s</p>\n", html.EscapeString(w))
		}
		for _, p := range s.Pictures {
			if err := b.write(p.Name+".svg", p.SVG); err != nil {
				return err
			}
			fmt.Fprintf(&md, "![%s](%s.svg)\n\n", p.Alt, p.Name)
			fmt.Fprintf(&page, "<img alt=\"%s\" src=\"data:image/svg+xml;base64,%s\">\n", html.EscapeString(p.Alt),
				base64.StdEncoding.EncodeToString(p.SVG))
		}
		if t.shown() {
			t.write(&md, &page)
		}
		fmt.Fprintf(&md, "All columns: [%s.csv](%[1]s.csv). Measured by\n\n```\n%s\n```\n", t.Name, t.Command)
		fmt.Fprintf(&page, "<p>Measured by</p><pre>%s</pre>\n", html.EscapeString(t.Command))
	}
	page.WriteString("</main></body></html>\n")
	if err := b.write("README.md", []byte(md.String())); err != nil {
		return err
	}
	return b.write("index.html", []byte(page.String()))
}

// mostRows is how many rows of a table people may want to scroll past: README.md leaves those of a longer one to other
// files, and index.html unfolds them.
const mostRows = 200

// shown reports whether the page has the table's rows: some column besides the keys is described.
func (t *Table) shown() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.About != "" && c.Role != Key })
}

// write writes the rows, which are missing and why, and what the columns are.
func (t *Table) write(md, page *strings.Builder) {
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
	head, rows, left := measured.cells()
	if n := cli.Count(len(rows), "row"); len(rows) > mostRows {
		fmt.Fprintf(md, "Its %s are in [%s.csv](%[2]s.csv), and in index.html.\n", n, t.Name)
		fmt.Fprintf(page, "<details><summary>%s</summary>%s</details>\n", n, htmlTable(head, rows, left))
	} else {
		md.WriteString(markdown(head, rows, left))
		page.WriteString(htmlTable(head, rows, left))
	}
	var about []string
	for _, c := range t.Columns {
		if c.About != "" && c.Role != Key && c.Role != Why {
			about = append(about, fmt.Sprintf("%s: %s", c.head(), c.About))
		}
	}
	if missing != nil {
		fmt.Fprintf(md, "\n<details><summary>Not measured: %s</summary>\n\n- %s\n\n</details>\n",
			cli.Count(len(missing), "row"),
			strings.Join(missing, "\n- "))
		fmt.Fprintf(page, "<details><summary>Not measured: %s</summary><ul><li>%s</ul></details>\n",
			cli.Count(len(missing), "row"),
			strings.Join(escaped(missing), "<li>"))
	}
	fmt.Fprintf(md, "\n<details><summary>What the columns are</summary>\n\n- %s\n\n</details>\n\n",
		strings.Join(about, "\n- "))
	fmt.Fprintf(page, "<details><summary>What the columns are</summary><ul><li>%s</ul></details>\n",
		strings.Join(escaped(about), "<li>"))
}

const htmlHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title><style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;margin:0;background:#fff;color:#1f2328;
overflow-wrap:anywhere}
main{max-width:1180px;margin:0 auto;padding:16px 24px 64px}img{max-width:100%%;display:block;margin:16px 0}
.scroll{overflow:auto}@media screen{.scroll{max-height:90vh}}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #d0d7de;white-space:nowrap}
th{position:sticky;top:0;background:#f6f8fa;white-space:normal;overflow-wrap:normal;vertical-align:bottom}
.l{text-align:left}pre{background:#f6f8fa;padding:10px;overflow-x:auto}
tr:hover td{background:#f6f8fa}td.why{white-space:normal;min-width:18em}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,pre{background:#161b22}
th,td{border-color:#30363d}tr:hover td{background:#161b22}}
</style></head><body><main><h1>%s</h1>
`

func escaped(list []string) (out []string) {
	for _, s := range list {
		out = append(out, html.EscapeString(s))
	}
	return out
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

// cells returns a table as text, without columns that nothing was measured for or that are not described, and without
// the reasons for missing rows if there are none.
func (t *Table) cells() (head []string, rows [][]string, left []bool) {
	rows = make([][]string, len(t.Rows))
	for _, c := range t.Columns {
		some := slices.ContainsFunc(t.Rows, func(r Row) bool { _, ok := r[c.Name]; return ok })
		if c.About == "" && c.Role != Key || !some {
			continue
		}
		head, left = append(head, c.head()), append(left, c.Type == Text)
		for i, r := range t.Rows {
			rows[i] = append(rows[i], c.cell(r))
		}
	}
	return head, rows, left
}

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

func markdown(head []string, rows [][]string, left []bool) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	for _, l := range left {
		b.WriteString(map[bool]string{true: "|---", false: "|---:"}[l])
	}
	b.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

func htmlTable(head []string, rows [][]string, left []bool) string {
	var b strings.Builder
	line := func(tag string, cells []string) {
		b.WriteString("<tr>")
		for i, c := range cells {
			class := ""
			if left[i] {
				class = ` class="l"`
			}
			fmt.Fprintf(&b, "<%s%s>%s</%[1]s>", tag, class, html.EscapeString(c))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<div class=\"scroll\"><table>\n")
	line("th", head)
	for _, r := range rows {
		line("td", r)
	}
	b.WriteString("</table></div>\n")
	return b.String()
}

// Markdown returns the table as one of Markdown.
func (t *Table) Markdown() string { return markdown(t.cells()) }

// CSV returns all cells of a table, in full precision.
func (t *Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	line := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		line[i] = c.Name
	}
	w.Write(line) // it writes into memory and cannot fail, nor can the next ones
	for _, r := range t.Rows {
		for i, c := range t.Columns {
			switch v := r[c.Name].(type) {
			case string:
				line[i] = v
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
