package main

import (
	"fmt"
	"slices"
	"strings"

	"restyle/internal/cli"
	"restyle/opcheck"
)

// An opsReport is the result of bench ops, in the form of its JSON output.
type opsReport struct {
	Command string    `json:"command"`
	Seconds float64   `json:"seconds"`
	Device  string    `json:"device"`
	Level   string    `json:"level,omitempty"`   // the CPU's instruction set
	Threads int       `json:"threads,omitempty"` // of the CPU
	OK      bool      `json:"ok"`                // no case is wrong
	Cases   int       `json:"cases"`
	Failed  int       `json:"failed"` // cells of the table with a wrong case
	Rows    []*opsRow `json:"rows,omitempty"`
}

// An opsRow is one cell of the table: one operation in one direction, with one type, fused or not.
type opsRow struct {
	Op     string     `json:"op"`
	Pass   string     `json:"pass"` // forward or backward
	Type   string     `json:"type"`
	Fused  bool       `json:"fused"`
	Cases  int        `json:"cases"`
	Worst  float64    `json:"worst"` // the largest error of the correct cases, as a fraction of its limit
	Faults []opsFault `json:"faults,omitempty"`
}

// An opsFault is a wrong case.
type opsFault struct {
	Case   string   `json:"case"`
	Faults []string `json:"faults"`
}

// row returns a cell, or nil if it does not exist.
func (r *opsReport) row(op, pass, typ string, fused bool) *opsRow {
	i := slices.IndexFunc(r.Rows, func(row *opsRow) bool {
		return row.Op == op && row.Pass == pass && row.Type == typ && row.Fused == fused
	})
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

// add counts a case's result in the cells of the case's directions.
func (r *opsReport) add(c *opcheck.Case, fused bool, result opcheck.Result) {
	passes := []opcheck.Pass{result.Forward}
	if c.Backward != nil {
		passes = append(passes, result.Backward)
	}
	for i, p := range passes {
		name := opsPasses[i]
		row := r.row(c.Op, name, c.Type.String(), fused)
		if row == nil {
			row = &opsRow{Op: c.Op, Pass: name, Type: c.Type.String(), Fused: fused}
			r.Rows = append(r.Rows, row)
		}
		row.Cases++
		switch {
		case len(p.Faults) > 0:
			if row.Faults == nil {
				r.Failed++
			}
			row.Faults = append(row.Faults, opsFault{c.ID(), p.Faults})
		default:
			row.Worst = max(row.Worst, p.Worst)
		}
	}
}

var opsPasses = []string{"forward", "backward"}

// text returns the report for people, with lines of at most 100 columns.
func (r *opsReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "device  %s", r.Device)
	if r.Level != "" {
		fmt.Fprintf(&b, ", %s, %s", r.Level, cli.Count(r.Threads, "thread"))
	}
	b.WriteString("\n\n")
	types, forms := []string{""}, []string{"operation"}
	for _, t := range opcheck.Types {
		types, forms = append(types, t.String(), ""), append(forms, form(false), form(true))
	}
	line(&b, types)
	line(&b, forms)
	var ops []string
	for _, row := range r.Rows {
		if !slices.Contains(ops, row.Op) {
			ops = append(ops, row.Op)
		}
	}
	for _, op := range ops {
		for _, pass := range opsPasses {
			if cells := r.cells(op, pass); cells != nil {
				line(&b, append([]string{strings.TrimSuffix(op+" "+pass, " forward")}, cells...))
			}
		}
	}
	for _, row := range r.Rows {
		for i, f := range row.Faults {
			if i == 0 {
				fmt.Fprintf(&b, "\nFAIL %s %s, %s, %s\n", row.Op, row.Pass, row.Type, form(row.Fused))
			}
			wrap(&b, f.Case+": "+strings.Join(f.Faults, "; "))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// cells returns the cells of an operation in one direction, or nil if it has none.
func (r *opsReport) cells(op, pass string) (cells []string) {
	some := false
	for _, t := range opcheck.Types {
		for _, fused := range []bool{false, true} {
			row := r.row(op, pass, t.String(), fused)
			some = some || row != nil
			cells = append(cells, row.cell())
		}
	}
	if !some {
		return nil
	}
	return cells
}

func (row *opsRow) cell() string {
	switch {
	case row == nil:
		return "-"
	case len(row.Faults) > 0:
		return fmt.Sprintf("FAIL %d/%d", len(row.Faults), row.Cases)
	}
	return fmt.Sprintf("ok%3.0f%%", 100*row.Worst)
}

func form(fused bool) string {
	if fused {
		return "fused"
	}
	return "unfused"
}

// line adds a line of the table.
func line(b *strings.Builder, cells []string) {
	text := fmt.Sprintf("%-24s", cells[0])
	for _, c := range cells[1:] {
		text += fmt.Sprintf("%-12s", c)
	}
	b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// wrap adds a text in lines of at most 100 columns, and indents all lines but the first.
func wrap(b *strings.Builder, text string) {
	for i, l := range cli.Wrap(text, 98) {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(l + "\n")
	}
}
