package results

import (
	"fmt"
	"io"
	"math"

	"restyle/internal/measure"
)

// A Change is a row that two files have.
type Change struct {
	Table, ID string
	Ratio     measure.Ratio // how many times as fast the second file's is
}

// Slower returns by how much the second is slower, as a share: 0.05 takes 5% longer.
func (c Change) Slower() float64 { return 1/c.Ratio.Times - 1 }

// A Comparison has the changes from one file to another.
type Comparison struct {
	Changes []Change
	Lost    []string // rows with a time that only the first has
	New     []string // and that only the second has
}

// Compare compares the times of the rows of a and b with the same keys.
func Compare(a, b *File) (c Comparison) {
	for _, t := range a.Tables {
		time, noise := t.role(Time), t.role(Noise)
		other := b.Table(t.Name)
		for _, r := range t.Rows {
			before := r.Number(time)
			if !(before > 0) {
				continue
			}
			id := t.Name + ": " + t.ID(r)
			var now Row
			if other != nil {
				now = other.Find(r)
			}
			if !(now.Number(time) > 0) {
				c.Lost = append(c.Lost, id)
				continue
			}
			c.Changes = append(c.Changes, Change{t.Name, t.ID(r),
				measure.RatioOf(before, r.Number(noise), now.Number(time), now.Number(noise))})
		}
	}
	for _, t := range b.Tables {
		time, other := t.role(Time), a.Table(t.Name)
		for _, r := range t.Rows {
			if r.Number(time) > 0 && (other == nil || !(other.Find(r).Number(time) > 0)) {
				c.New = append(c.New, t.Name+": "+t.ID(r))
			}
		}
	}
	return c
}

// Failed returns the changes that are slower by more than a share, and by more than the noise. A change of unknown
// noise counts if it is slower by more than the share, and one that is too noisy to compare does not count.
func (c Comparison) Failed(most float64) (failed []Change) {
	for _, x := range c.Changes {
		noise := x.Ratio.Noise
		if math.IsNaN(noise) {
			noise = 0
		}
		if noise <= measure.MaxNoise && x.Slower() > max(most, noise) {
			failed = append(failed, x)
		}
	}
	return failed
}

// Print writes the comparison in words, a line per row.
func (c Comparison) Print(w io.Writer) error {
	table := ""
	for _, x := range c.Changes {
		if x.Table != table {
			table = x.Table
			if _, err := fmt.Fprintf(w, "%s\n", table); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "  %-58s %v\n", x.ID, x.Ratio); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		what string
		ids  []string
	}{{"only in the first", c.Lost}, {"only in the second", c.New}} {
		for _, id := range part.ids {
			if _, err := fmt.Fprintf(w, "%s: %s\n", part.what, id); err != nil {
				return err
			}
		}
	}
	return nil
}
