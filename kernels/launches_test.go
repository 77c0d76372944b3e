package kernels_test

import (
	"slices"
	"testing"

	"restyle/kernels"
	"restyle/opcheck"
	"restyle/tensor"
)

func init() { kernels.Timed, kernels.Checked = timedLaunches, checkedLaunches }

// timedLaunches runs what bench kernels times.
func timedLaunches(_ *testing.T, bf16 bool) func(d *kernels.Device) error {
	list := slices.DeleteFunc(opcheck.Timings(), func(t *opcheck.Timing) bool { return t.Type == tensor.BF16 && !bf16 })
	return func(d *kernels.Device) error { return opcheck.RehearseTimings(d, list) }
}

// checkedLaunches runs all cases, and the steps of an optimizer in every form, for which there are no cases.
func checkedLaunches(t *testing.T, bf16 bool) func(d *kernels.Device) error {
	list := slices.DeleteFunc(opcheck.All(), func(c *opcheck.Case) bool { return c.Has(tensor.BF16) && !bf16 })
	return func(d *kernels.Device) error {
		t.Run("steps", func(t *testing.T) { // which closes what it opens
			var all []kernels.AdamWTensor
			a, c := arena(t, d, 1<<14), control(t, d)
			for _, f := range slices.Concat(forms, halfGradients) {
				if (f.weight == tensor.BF16 || f.gradient == tensor.BF16) && !bf16 {
					continue
				}
				x := f.stepper(t, d, make([]float32, 5003)).tensor()
				x.Sums = a.New("sums", tensor.F64, kernels.SquaresUnits(5003))
				all = append(all, x)
				d.AdamW(x, kernels.AdamWStep{Step: 1})
				d.AddSquares(c, x.G)
			}
			l := d.NewAdamWList(a.New("list", tensor.U8, kernels.AdamWListSize(len(all))), all)
			d.SquaresAll(l)
			d.AddSums(c, all[0].Sums)
			d.AddLoss(c, a.New("loss", tensor.F32, 1))
			d.Decide(c, 1, 1)
			d.AdamWAll(l, kernels.AdamWStep{Step: 1, Control: c})
		})
		return opcheck.Rehearse(d, list)
	}
}
