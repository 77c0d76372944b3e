package main

// blasMutants are faults of what cuBLASLt multiplies: how many rows there are, which algorithm is taken, and how that is kept.
var blasMutants = []mutant{
	{"blas/rows-not-filled", "model/step.go", "b = b.filled(m.o.Rows(len(b.IDs)),", "b = b.filled(len(b.IDs),", "./model -run Fill"},
	{"blas/rows-too-many-numbers", "model/options.go", "(fillings * grain) * grain", "(2 * fillings * grain) * grain", "./model -run Rows"},
	{"blas/rows-beyond-the-most", "model/options.go", "min(o.MaxTokens, (tokens+step-1)/step*step)", "(tokens+step-1)/step*step", "./model -run Rows"},
	{"blas/filling-too-long", "model/batch.go", "n := min(left, longest)", "n := left", "./model -run Fill"},
	{"blas/filling-trained", "model/batch.go", "slices.Repeat([]int32{Ignore}, n)", "slices.Repeat([]int32{id}, n)", "./model -run Fill"},
	{"blas/head-filled-with-anything", "model/head.go", "d.Zero(h.x.Slice(trained, h.x.Dim(0)))", "", "./model -run Fill"},
	{"blas/head-gradient-of-anything", "model/head.go", "d.Zero(dlogits.Slice(n, rows))", "", "./model -run Fill"},
	{"blas/head-not-filled", "model/head.go", "return min(piece, m.o.Rows(rows))", "return rows", "./model -run Fill"},
	{"blas/filling-positions-told", "model/head.go", "lo < len(b.IDs); lo += piece", "lo < p.rows; lo += piece", "./model -run Fill"},
	{"blas/fillings-not-rehearsed", "model/options.go", "n = o.Rows(n + 1)", "n = o.MaxTokens", "./model -run Rows"},
	{"blas/filling-counted-as-tokens", "trainer/step.go", "r.Model.Rows(len(b.IDs)) - len(b.IDs)", "r.Model.Rows(len(b.IDs)) - r.Model.Rows(len(b.IDs))", "./trainer -run Filled"},
}
