// Package results stores what bench measures in a results.json, and makes CSV files, pictures and pages from it. An
// interrupted run continues from that file, and Compare puts two of them side by side.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/internal/disk"
	"restyle/internal/measure"
)

// Format is the version of the file's form.
const Format = 1

// A File is the content of results.json.
type File struct {
	Format  int      `json:"format"`
	Machine Machine  `json:"machine"`
	Tables  []*Table `json:"tables"`
}

// A Machine is where and with what something was measured.
type Machine struct {
	Device  string `json:"device"`            // such as "cpu", or a GPU's name
	CPU     string `json:"cpu"`               // its name
	Level   string `json:"level,omitempty"`   // the CPU's instruction set, if the CPU computes
	Threads int    `json:"threads,omitempty"` // of the CPU, if it computes
	Memory  int64  `json:"memory,omitempty"`  // bytes of the device's memory
	OS      string `json:"os"`
	Version string `json:"version"` // of restyle and Go
	Note    string `json:"note,omitempty"`
}

// A Table has rows of one measurement. Rows of different settings are in different tables.
type Table struct {
	Name     string   `json:"name"`     // such as "kernels"; part of file names
	Title    string   `json:"title"`    // for people
	Command  string   `json:"command"`  // which measured it
	Settings string   `json:"settings"` // all that decides what a row means, such as the number of timings
	Columns  []Column `json:"columns"`
	Rows     []Row    `json:"rows"`
}

// A Column describes the cells with its name.
type Column struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	Role Role   `json:"role,omitempty"`
	Unit string `json:"unit,omitempty"`
	// About says for people what the column is. Pages leave columns without it out.
	About string `json:"about,omitempty"`
}

// A Type is the type of a column's cells.
type Type string

const (
	Text    Type = "text"
	Number  Type = "number"
	Integer Type = "integer"
)

// A Role is what a column is for.
type Role string

const (
	Key   Role = "key"   // its text or number identifies the row, together with the other keys
	Time  Role = "time"  // lower is better; Compare compares it
	Noise Role = "noise" // how far the Time may be off, as a share of it
	Why   Role = "why"   // the reason why a row has no values
)

// A Row maps the name of a column to its cell, a string or a float64. A cell that is absent was not measured.
type Row map[string]any

// Text returns a cell as text, or "".
func (r Row) Text(name string) string { s, _ := r[name].(string); return s }

// Number returns a cell's number, or NaN.
func (r Row) Number(name string) float64 {
	if v, ok := r[name].(float64); ok {
		return v
	}
	return math.NaN()
}

// Set stores a number, unless it is NaN or infinite: then the cell stays absent.
func (r Row) Set(name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		r[name] = v
	}
}

// role returns the name of the column with a role, or "".
func (t *Table) role(role Role) string {
	for _, c := range t.Columns {
		if c.Role == role {
			return c.Name
		}
	}
	return ""
}

// ID returns the cells of a row that identify it.
func (t *Table) ID(r Row) string {
	var keys []string
	for _, c := range t.Columns {
		if v, ok := r[c.Name]; ok && c.Role == Key {
			keys = append(keys, fmt.Sprint(v))
		}
	}
	return strings.Join(keys, " ")
}

// Quiet returns the table without the cells that noise drowns. If the time of a row has more noise than
// measure.MaxNoise, these are all cells that follow from the time. A ratio has a noise of its own, in the column with
// "_noise" after its name, and is left out if that is more than measure.MaxNoise.
func (t *Table) Quiet() *Table {
	quiet := *t
	quiet.Rows = make([]Row, len(t.Rows))
	for i, r := range t.Rows {
		quiet.Rows[i] = Row{}
		for _, c := range t.Columns {
			noisy := c.timed() && t.Noisy(r) || r.Number(c.Name+"_noise") > measure.MaxNoise
			if v, ok := r[c.Name]; ok && !noisy {
				quiet.Rows[i][c.Name] = v
			}
		}
	}
	return &quiet
}

// Noisy reports whether the time of a row says nothing, because its noise is more than measure.MaxNoise.
func (t *Table) Noisy(r Row) bool { return r.Number(t.role(Noise)) > measure.MaxNoise }

// timed reports whether a column's cells follow from the time: it is one, a rate, a ratio or a share of a ceiling.
func (c Column) timed() bool {
	units := []string{"s", "ms", "×", "GB/s", "TFLOP/s", "tokens/s", "targets/s"}
	return c.Role == Time || slices.Contains(units, c.Unit) || strings.HasPrefix(c.Name, "of_")
}

// Find returns the row with the keys of r, or nil.
func (t *Table) Find(r Row) Row {
	id := t.ID(r)
	if i := slices.IndexFunc(t.Rows, func(other Row) bool { return t.ID(other) == id }); i >= 0 {
		return t.Rows[i]
	}
	return nil
}

// Done reports whether the row with the keys of r was measured: it is there, and does not say why it is missing.
func (t *Table) Done(r Row) bool {
	old := t.Find(r)
	return old != nil && old.Text(t.role(Why)) == ""
}

// check reports the first mistake of a table.
func (t *Table) check() error {
	names := map[string]Column{}
	for _, c := range t.Columns {
		if _, twice := names[c.Name]; twice || c.Name == "" {
			return fmt.Errorf("table %q: column %q: is empty or occurs twice", t.Name, c.Name)
		}
		if !slices.Contains([]Type{Text, Number, Integer}, c.Type) {
			return fmt.Errorf("table %q: column %q: type %q: must be text, number or integer", t.Name, c.Name, c.Type)
		}
		names[c.Name] = c
	}
	seen := map[string]bool{}
	for _, r := range t.Rows {
		id := t.ID(r)
		for name, v := range r {
			c, known := names[name]
			_, text := v.(string)
			n, number := v.(float64)
			switch {
			case !known:
				return fmt.Errorf("table %q: row %q: cell %q has no column", t.Name, id, name)
			case text != (c.Type == Text) || !text && !number, c.Type == Integer && n != math.Trunc(n):
				return fmt.Errorf("table %q: row %q: cell %q: %v: must be of type %s", t.Name, id, name, v, c.Type)
			}
		}
		if seen[id] {
			return fmt.Errorf("table %q: two rows %q", t.Name, id)
		}
		seen[id] = true
	}
	return nil
}

// safe reports whether a name can be part of a file's name.
func safe(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// Parse reads a results.json. It checks everything that others rely on: columns, types and that each row is unique.
func Parse(data []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not the results of a measurement: %w", err)
	}
	if f.Format != Format {
		return nil, fmt.Errorf("format %d: must be %d: measure again, or use another version of bench", f.Format, Format)
	}
	seen := map[string]bool{}
	for _, t := range f.Tables {
		if t == nil || !safe(t.Name) || seen[t.Name] {
			return nil, errors.New("a table has no name, an unsafe one, or the name of another table")
		}
		seen[t.Name] = true
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	return &f, nil
}

// Load reads a results.json from a file, or from a directory that has one.
func Load(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "results.json")
	}
	data, err := disk.ReadInput(path, disk.MaxRecord)
	if err != nil {
		return nil, err
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Table returns a table by its name, or nil.
func (f *File) Table(name string) *Table {
	i := slices.IndexFunc(f.Tables, func(t *Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return f.Tables[i]
}

// A Book is a results.json that grows while something is measured.
type Book struct {
	File
	Dir string // "" if nothing is kept
}

// Open continues the results.json of a directory, or starts one. It does not mix new rows with rows that were measured
// on another machine or by another version: if there are any, Open keeps the old file under another name, which it
// returns, and starts over. With dir "", nothing is kept. If nothing can be written to dir, Open says so, before
// anything is measured.
func Open(dir string, m Machine) (b *Book, kept string, err error) {
	b = &Book{File{Format: Format, Machine: m}, dir}
	if dir == "" {
		return b, "", nil
	}
	file := filepath.Join(dir, "results.json")
	old, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = disk.MakeDir(dir, 0o755)
	} else if err != nil {
		err = fmt.Errorf("%w: move it away, or name another directory", err)
	}
	if err != nil {
		return nil, "", err
	}
	if f, err := disk.Create(file, 0o644); err != nil {
		return nil, "", err
	} else if err = f.Discard(); err != nil {
		return nil, "", err
	}
	switch {
	case old == nil:
		return b, "", nil
	case old.Machine == m:
		b.File = *old
		return b, "", nil
	}
	kept, err = disk.MoveToBackup(file)
	return b, kept, err
}

// Begin returns the table with the name of t, with the rows that it has if everything else is as in t. Otherwise it
// returns t, without the old rows. If there were some, Begin keeps the old file under another name, which it returns.
func (b *Book) Begin(t Table) (table *Table, kept string, err error) {
	if old := b.Table(t.Name); old != nil {
		same := old.Settings == t.Settings && slices.Equal(old.Columns, t.Columns)
		if !same {
			if len(old.Rows) > 0 && b.Dir != "" {
				if kept, err = disk.Backup(filepath.Join(b.Dir, "results.json")); err != nil {
					return nil, "", err
				}
			}
			old.Rows = nil
		}
		if same && !slices.Contains(strings.Split(old.Command, "\n"), t.Command) { // another command adds rows
			t.Command = old.Command + "\n" + t.Command
		} else if same {
			t.Command = old.Command
		}
		old.Title = t.Title
		old.Command = t.Command
		old.Settings = t.Settings
		old.Columns = t.Columns
		return old, kept, nil
	}
	b.Tables = append(b.Tables, &t)
	return &t, "", nil
}

// Add adds a row to one of the book's tables, in place of one with the same keys, and saves the book.
func (b *Book) Add(t *Table, r Row) error {
	id := t.ID(r)
	if i := slices.IndexFunc(t.Rows, func(old Row) bool { return t.ID(old) == id }); i >= 0 {
		t.Rows[i] = r
	} else {
		t.Rows = append(t.Rows, r)
	}
	if err := t.check(); err != nil {
		return err
	}
	return b.Save()
}

// Save writes results.json, completely or not at all.
func (b *Book) Save() error {
	if b.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(b.File, "", " ")
	if err != nil {
		return err
	}
	return b.write("results.json", append(data, '\n'))
}

func (b *Book) write(name string, data []byte) error {
	return disk.Write(filepath.Join(b.Dir, name), data, 0o644)
}
