package kernels

import "restyle/tensor"

// expertCases returns the cases of a mixture of 8 experts, of which 2 compute each row.
func expertCases(t tensor.DType, rows, dim int) []gpuCase {
	const experts, k = 8, 2
	few := min(rows, 2048)
	of := func(t tensor.DType, moved int, shape ...int) gpuOperand { return gpuOperand{t, shape, moved} }
	logits, dlogits := of(tensor.F32, 4, few, experts), of(tensor.F32, 1, few, experts)
	sums := of(tensor.F32, 2, 2, experts)
	x, pairs, w := of(t, 1, few, dim), of(t, 1, few*k, dim), of(t, 1, experts*dim, dim)
	routing := func(a []tensor.Tensor) Routing {
		return Routing{Experts: a[0], Weights: a[1], LSE: a[2], Place: a[3], Rows: a[4], Offsets: a[5]}
	}
	// Five kernels read or write the experts, two the weights, three the sums, and four the logits.
	operands := func(more ...gpuOperand) []gpuOperand {
		return append([]gpuOperand{of(tensor.I32, 5, few, k), of(tensor.F32, 2, few, k), of(tensor.F32, 3, few),
			of(tensor.I32, 1, few, k), of(tensor.I32, 1, few*k), of(tensor.I32, 1, experts+1)}, more...)
	}
	return []gpuCase{
		{"route", operands(logits, sums, dlogits, of(tensor.F32, 1, few, k)), func(d *Device, a []tensor.Tensor) {
			r := routing(a)
			d.Route(r, a[6], true)
			d.AddBalance(Balance{Sums: a[7], Rows: few}, r, a[6])
			d.RouteBackward(a[8], a[9], r, a[6], true, Balance{})
		}},
		{"experts", operands(logits, x, pairs, w, pairs), func(d *Device, a []tensor.Tensor) {
			r := routing(a)
			d.Route(r, a[6], true)
			d.GroupedLinear(a[10], a[8], a[9], r.Offsets, few)
			d.Combine(a[7], a[10], r, true)
		}},
		{"experts backward", operands(logits, x, pairs, w, pairs, of(tensor.F32, 1, experts*dim, dim),
			of(tensor.F32, 1, few, k)), func(d *Device, a []tensor.Tensor) {
			r := routing(a)
			d.Route(r, a[6], true)
			d.GroupedLinearBackward(a[8], a[10], a[9], r.Offsets, few)
			d.WeighPairs(a[12], a[8], a[10], r)
			d.GroupedLinearGradient(a[11], a[10], a[8], r.Offsets, 0, false)
			d.Combine(a[7], a[8], r, false)
		}},
	}
}
