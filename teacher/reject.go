package teacher

import (
	"cmp"
	"slices"

	"restyle/dataset"
)

// UnreadableRow is the check that a row of the source fails if it cannot be read. The check's value names the row.
const UnreadableRow = "S0"

// A rejected row waits for the rows before it.
type rejected struct {
	index int // of the row, over all sources
	dataset.Reject
}

// unfit counts a row of the source that is not asked about.
func (d *decider) unfit(row dataset.Row, c dataset.Check) {
	d.sum.Unfit[c.ID]++
	if isProse(row, c) {
		d.sum.Prose++
	}
	d.refused(row.Index, 0, c)
	d.reject(row, c, 0, "")
}

// isProse reports whether a row failed a check of the source because it has no code.
func isProse(row dataset.Row, failed dataset.Check) bool {
	return failed.ID == "S1" && !HasCode(row.Output)
}

// reject keeps a row from which none will be made, for Reject.
func (d *decider) reject(row dataset.Row, c dataset.Check, attempts int, answer string) {
	if d.Reject == nil {
		return
	}
	source, at := d.Source.Origin(row.Index)
	r := rejected{row.Index, dataset.Reject{
		SourceName: source.Name, SourceRevision: source.Revision, SourceRow: at,
		Check: c.ID, Reason: c.Value, Attempts: attempts,
		Instruction: row.Instruction, Input: row.Input, Output: row.Output, Answer: answer,
	}}
	place, _ := slices.BinarySearchFunc(d.rejects, r, func(a, b rejected) int { return cmp.Compare(a.index, b.index) })
	d.rejects = slices.Insert(d.rejects, place, r)
}

// passRejects passes to Reject, in the source's order, the rejected rows before which every row is decided. undecided
// is the first row in the window; rows that were read ahead come after it.
func (d *decider) passRejects(undecided int) error {
	for _, t := range d.ahead {
		undecided = min(undecided, t.prompt.Row.Index)
	}
	n := 0
	for ; n < len(d.rejects) && d.rejects[n].index < undecided; n++ {
		if err := d.Reject(d.rejects[n].Reject); err != nil {
			return err
		}
	}
	d.rejects = slices.Delete(d.rejects, 0, n)
	return nil
}
