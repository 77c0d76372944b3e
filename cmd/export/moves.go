package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"restyle/hf"
	"restyle/model"
)

// moves has how far an adapter moves the weights of each layer, by module. The experts of a layer count together.
type moves struct {
	cells   map[cell]hf.Difference
	columns []string // in the order of the first layer
	low     []cell   // the cells that A and B move
}

type cell struct {
	layer  int
	module string // such as q_proj
}

func (m *moves) add(p model.Param, d hf.Difference, low bool) {
	parts := strings.Split(p.Name, ".")
	at := cell{p.Layer, parts[max(0, len(parts)-2)]}
	was := m.cells[at]
	m.cells[at] = hf.Difference{Changed: was.Changed + d.Changed, Norm: was.Norm + d.Norm, Moved: was.Moved + d.Moved}
	if !slices.Contains(m.columns, at.module) {
		m.columns = append(m.columns, at.module)
	}
	if low && !slices.Contains(m.low, at) {
		m.low = append(m.low, at)
	}
}

// check returns an error if A and B leave a module as it was.
func (m *moves) check() error {
	var still []string
	for _, at := range m.low {
		if m.cells[at].Changed == 0 {
			still = append(still, at.String())
		}
	}
	if still == nil {
		return nil
	}
	const most = 3
	list := strings.Join(still[:min(most, len(still))], "; ")
	if more := len(still) - most; more > 0 {
		list += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("the adapter does not change %s: it is not trained there (B is 0), or its change is lost when it "+
		"is rounded to the base's type: train it, or use it unmerged", list)
}

// String names a module.
func (c cell) String() string {
	if c.layer == model.Outside {
		return c.module
	}
	return fmt.Sprintf("%s of layer %d", c.module, c.layer)
}

// print prints a row for each layer, and one for what is outside of layers.
func (m *moves) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "‖W'-W‖/‖W‖\t%s\n", strings.Join(m.columns, "\t"))
	layers := map[int]bool{}
	for at := range m.cells {
		layers[at.layer] = true
	}
	for _, layer := range slices.Sorted(maps.Keys(layers)) {
		name := fmt.Sprint("layer ", layer)
		if layer == model.Outside {
			name = "outside"
		}
		fmt.Fprint(w, name)
		for _, column := range m.columns {
			text := "-"
			if d, ok := m.cells[cell{layer, column}]; ok {
				text = fmt.Sprintf("%.2g", d.Relative())
			}
			fmt.Fprintf(w, "\t%s", text)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	return w.Flush()
}
