package results

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html"
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

// Pages writes, for each table, a CSV file and its pictures, and for all of them README.md and index.html. index.html
// holds its pictures, so it can be opened alone and from anywhere. Only the CSV files have what is too noisy to tell.
func (b *Book) Pages(title string, section func(t *Table) Section) error {
	b, title = b.clean(), cli.Clean(title)
	var md, page strings.Builder
	fmt.Fprintf(&md, "# %s\n\n", inert(title))
	fmt.Fprintf(&page, htmlHead, html.EscapeString(title), narrow, html.EscapeString(title))
	sections := make([]Section, len(b.Tables))
	for i, t := range b.Tables {
		sections[i] = section(t.Quiet())
	}
	b.opening(&md, &page, sections)
	for i, t := range b.Tables {
		if err := b.write(t.Name+".csv", t.CSV()); err != nil {
			return err
		}
		s, t := sections[i], t.Quiet()
		fmt.Fprintf(&md, "\n## %s\n\n", inert(t.Title))
		fmt.Fprintf(&page, "<h2 id=%q>%s</h2>\n", t.Name, html.EscapeString(t.Title))
		for _, p := range s.Pictures {
			if err := b.write(p.Name+".svg", p.SVG); err != nil {
				return err
			}
			fmt.Fprintf(&md, "![%s](%s.svg)\n\n", inert(p.Alt), p.Name)
			fmt.Fprintf(&page, "<div class=\"scroll\"><img alt=\"%s\" src=\"data:image/svg+xml;base64,%s\"></div>\n",
				html.EscapeString(p.Alt), base64.StdEncoding.EncodeToString(p.SVG))
		}
		for _, w := range s.Words {
			fmt.Fprintf(&md, "%s\n\n", inert(w))
			fmt.Fprintf(&page, "<p>%s</p>\n", html.EscapeString(w))
		}
		if t.shown() {
			t.write(&md, &page)
		}
		fmt.Fprintf(&md, "All columns: `%s.csv`, which `bench page` writes. Measured by\n\n%s\n", t.Name,
			sidebyside.Fenced(t.Command))
		fmt.Fprintf(&page, "<p>Measured by</p><pre>%s</pre>\n", html.EscapeString(t.Command))
	}
	page.WriteString("</main></body></html>\n")
	if err := b.write("README.md", []byte(md.String())); err != nil {
		return err
	}
	return b.write("index.html", []byte(page.String()))
}

// opening writes what a reader wants first: the results in a sentence each, the contents and the machine.
func (b *Book) opening(md, page *strings.Builder, sections []Section) {
	var lines []string
	for i, t := range b.Tables {
		line := fmt.Sprintf("[%s](#%s)", inert(t.Title), url.PathEscape(anchor(t.Title)))
		text := fmt.Sprintf("<a href=\"#%s\">%s</a>", t.Name, html.EscapeString(t.Title))
		if h := sections[i].Headline; h != "" {
			line, text = line+": "+inert(h), text+": "+html.EscapeString(h)
		}
		fmt.Fprintf(md, "- %s\n", line)
		lines = append(lines, text)
	}
	fmt.Fprintf(page, "<ul class=\"contents\"><li>%s</ul>\n", strings.Join(lines, "<li>"))
	machine := b.Machine.lines()
	fmt.Fprintf(md, "\n%s\n", strings.Join(inertAll(machine), "  \n"))
	fmt.Fprintf(page, "<p>%s</p>\n", strings.Join(escaped(machine), "<br>"))
}

// anchor returns the name that GitHub gives a heading.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// foldRows is how many rows of a table are shown before the page folds it.
const foldRows = 30

// mostRows is how many rows of a table README.md has: it leaves those of a longer one to other files.
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
	head, rows, left, keys := measured.cells()
	n, table := cli.Count(len(rows), "row"), htmlTable(t.Name, head, rows, left, keys)
	switch {
	case len(rows) > mostRows:
		fmt.Fprintf(md, "Its %s are in `%s.csv` and `index.html`, which `bench page` writes.\n", n, t.Name)
	case len(rows) > foldRows:
		fmt.Fprintf(md, "<details><summary>%s</summary>\n\n%s\n</details>\n", n, markdown(head, rows, left))
	default:
		md.WriteString(markdown(head, rows, left))
	}
	if len(rows) > foldRows {
		table = fmt.Sprintf("<details><summary>%s</summary>%s</details>\n", n, table)
	}
	page.WriteString(table)
	var about []string
	for _, c := range t.Columns {
		if c.About != "" && c.Role != Key && c.Role != Why {
			about = append(about, fmt.Sprintf("%s: %s", c.head(), c.About))
		}
	}
	if missing != nil {
		fmt.Fprintf(md, "\n<details><summary>Not measured: %s</summary>\n\n- %s\n\n</details>\n",
			cli.Count(len(missing), "row"),
			strings.Join(inertAll(missing), "\n- "))
		fmt.Fprintf(page, "<details><summary>Not measured: %s</summary><ul><li>%s</ul></details>\n",
			cli.Count(len(missing), "row"),
			strings.Join(escaped(missing), "<li>"))
	}
	fmt.Fprintf(md, "\n<details><summary>What the columns are</summary>\n\n- %s\n\n</details>\n\n",
		strings.Join(inertAll(about), "\n- "))
	fmt.Fprintf(page, "<details><summary>What the columns are</summary><ul><li>%s</ul></details>\n",
		strings.Join(escaped(about), "<li>"))
}

// narrow is the width of a window, in pixels, up to which the page is laid out as for a phone.
const narrow = 700

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
.contents{padding-left:20px;font-size:16px}a{color:#0969da}
@media (max-width:%dpx){main{padding:8px 12px 48px}img{width:820px;max-width:none}
td,th{border:0;padding:0}
.scroll:has(table){max-height:none}tr:first-child{display:none}
tr{display:block;padding:6px 0;border-bottom:1px solid #d0d7de}td::before{color:#6e7781}td:empty{display:none}
td{display:inline-block;margin-right:14px;white-space:normal;text-align:left}}
@media (prefers-color-scheme:dark){a{color:#4493f8}body{background:#0d1117;color:#e6edf3}th,pre{background:#161b22}
th,td{border-color:#30363d}tr:hover td{background:#161b22}}
</style></head><body><main><h1>%s</h1>
`

// active is what Markdown takes for HTML, links, pictures and their definitions, in one line.
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
// the reasons for missing rows if there are none. Its first columns are the keys.
func (t *Table) cells() (head []string, rows [][]string, left []bool, keys int) {
	rows = make([][]string, len(t.Rows))
	for _, c := range t.Columns {
		some := slices.ContainsFunc(t.Rows, func(r Row) bool { _, ok := r[c.Name]; return ok })
		if c.About == "" && c.Role != Key || !some {
			continue
		}
		head, left = append(head, c.head()), append(left, c.Type == Text)
		if c.Role == Key {
			keys++
		}
		for i, r := range t.Rows {
			text := c.cell(r)
			if c.Role == Time && text == "" && t.Noisy(r) {
				text = "too noisy"
			}
			rows[i] = append(rows[i], text)
		}
	}
	return head, rows, left, keys
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
			b.WriteString("| " + strings.ReplaceAll(inert(c), "|", `\|`) + " ")
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

// htmlTable writes a table whose first columns are keys. On a phone each row is a paragraph: the keys, and then the
// other cells with the names of their columns.
func htmlTable(name string, head []string, rows [][]string, left []bool, keys int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<style>@media (max-width:%dpx){", narrow)
	for i, h := range head {
		if i < keys {
			fmt.Fprintf(&b, "#%s-rows td:nth-child(%d){font-weight:600}", name, i+1)
		} else {
			content := strings.ReplaceAll(strconv.Quote(h+" "), "<", `\3c `) // which could end the style sheet
			fmt.Fprintf(&b, "#%s-rows td:nth-child(%d)::before{content:%s}", name, i+1, content)
		}
	}
	b.WriteString("}</style>\n")
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
	fmt.Fprintf(&b, "<div class=\"scroll\"><table id=\"%s-rows\">\n", name)
	line("th", head)
	for _, r := range rows {
		line("td", r)
	}
	b.WriteString("</table></div>\n")
	return b.String()
}

// Markdown returns the table as one of Markdown.
func (t *Table) Markdown() string {
	head, rows, left, _ := t.cells()
	return markdown(head, rows, left)
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
