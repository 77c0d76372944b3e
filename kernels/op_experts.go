package kernels

import (
	"fmt"

	"restyle/kernels/cpu"
	"restyle/tensor"
)

// A Routing says which experts of a mixture compute which rows, and with which weights their outputs are added up
// (Shazeer et al. 2017). A pair is a row and one of its k experts; pairs are sorted by expert, and within an expert by
// row, so that an expert's rows are contiguous.
type Routing struct {
	Experts tensor.Tensor // I32 [rows, k], the experts of each row, ascending
	Weights tensor.Tensor // F32 [rows, k]
	LSE     tensor.Tensor // F32 [rows], log Σ e^logits
	Place   tensor.Tensor // I32 [rows, k], where each pair is among the sorted pairs
	Rows    tensor.Tensor // I32 [rows·k], the row of each sorted pair
	Offsets tensor.Tensor // I32 [experts+1], where each expert's pairs start, and how many pairs there are
}

// NewRouting allocates a Routing of rows to k of a number of experts.
func NewRouting(a *Arena, rows, k, experts int) Routing {
	return Routing{
		Experts: a.New("experts", tensor.I32, rows, k), Weights: a.New("weights", tensor.F32, rows, k),
		LSE: a.New("lse", tensor.F32, rows), Place: a.New("place", tensor.I32, rows, k),
		Rows: a.New("pairs", tensor.I32, rows*k), Offsets: a.New("offsets", tensor.I32, experts+1),
	}
}

// check panics unless the routing is one of rows rows to experts.
func (r Routing) check(op string, rows, experts int) {
	k := r.Experts.Dim(-1)
	want(op, "Experts", r.Experts, tensor.I32, rows, k)
	want(op, "Weights", r.Weights, tensor.F32, rows, k)
	want(op, "LSE", r.LSE, tensor.F32, rows)
	want(op, "Place", r.Place, tensor.I32, rows, k)
	want(op, "Rows", r.Rows, tensor.I32, rows*k)
	want(op, "Offsets", r.Offsets, tensor.I32, experts+1)
}

// Route chooses for each row the k experts with the highest logits, among equal ones those with the lower indices,
// and computes their weights. With p = softmax(logits) and S the chosen experts:
//
//	weights[r,s] = p[r,e]    or, normalized,    p[r,e] / Σ_{i∈S} p[r,i],    e = Experts[r,s]
//
// logits is [rows, experts] F32. Results are the same on every run: nothing depends on the order of threads.
func (d *Device) Route(r Routing, logits tensor.Tensor, normalized bool) {
	const op = "Route"
	rows, n, k := logits.Rows(), logits.Dim(-1), r.Experts.Dim(-1)
	want(op, "logits", logits, tensor.F32, rows, n)
	r.check(op, rows, n)
	if k < 1 || k > n {
		panic(fmt.Sprintf("%s: %d of %d experts: must be 1 to all", op, k, n))
	}
	d.TopK(tensor.Tensor{}, r.Experts, logits, k)
	d.ran("route")
	if d.gpu == nil {
		cpu.Route(r.Experts, r.Weights, r.LSE, logits, normalized)
		cpu.GroupPairs(r.Place, r.Rows, r.Offsets, r.Experts)
		return
	}
	d.launch(kernel{"op_experts_route.cu", "route", routeType}, each(rows), addr(r.Experts), addr(r.Weights), addr(r.LSE),
		addr(logits), i32(rows), i32(n), i32(k), flag(normalized))
	d.launch(kernel{"op_experts_route.cu", "group_pairs", routeType},
		line(n, 256), addr(r.Place), addr(r.Rows), addr(r.Offsets),
		addr(r.Experts), i32(rows*k), i32(k))
}

// routeType is the macro with which the kernels that read and write no activations are compiled.
var routeType = define(macro{"F32", 1})

// Balance is how evenly the rows of a batch were spread over the experts.
type Balance struct {
	// Sums is [2, experts] F32: how many rows chose each expert, and the sum over the rows of the probability of each.
	Sums tensor.Tensor
	// Rows is the number of rows that count, the first ones: others are padding.
	Rows int
	// Scale multiplies the gradient of Σₑ Sums[0,e] · Sums[1,e] when RouteBackward adds it, with Sums[0] constant.
	Scale float32
}

// AddBalance adds a routing to the sums of a balance.
func (d *Device) AddBalance(b Balance, r Routing, logits tensor.Tensor) {
	const op = "AddBalance"
	n := logits.Dim(-1)
	want(op, "Sums", b.Sums, tensor.F32, 2, n)
	want(op, "logits", logits, tensor.F32, logits.Rows(), n)
	r.check(op, logits.Rows(), n)
	d.ran("add_balance")
	if d.gpu == nil {
		cpu.AddBalance(b.Sums, r.Experts, logits, r.LSE, b.Rows)
		return
	}
	d.launch(kernel{"op_experts_route.cu", "add_balance", routeType},
		line(n, 256), addr(b.Sums).twice(true), addr(r.Experts),
		addr(logits), addr(r.LSE), i32(b.Rows), i32(n), i32(r.Experts.Dim(-1)))
}

// RouteBackward computes the gradient of Route's weights with respect to the logits:
//
//	dlogits[r,e] = p·(δ·dweights[r,s] − Σ_t weights[r,t]·dweights[r,t])    p = softmax(logits)[r,e]
//	dlogits[r,e] = δ·weights[r,s]·(dweights[r,s] − Σ_t weights[r,t]·dweights[r,t])    normalized
//
// where δ is 1 if e is Experts[r,s] and 0 otherwise. The choice itself has no gradient. If b has sums, RouteBackward
// adds b.Scale · p·(Sums[0,e] − Σᵢ p[r,i]·Sums[0,i]) for the rows that b counts. dlogits is [rows, experts], F32, BF16
// or F16; dweights is like Weights.
func (d *Device) RouteBackward(dlogits, dweights tensor.Tensor, r Routing, logits tensor.Tensor, normalized bool,
	b Balance) {
	const op = "RouteBackward"
	rows, n, k := logits.Rows(), logits.Dim(-1), r.Experts.Dim(-1)
	floating(op, "dlogits", dlogits)
	want(op, "dlogits", dlogits, dlogits.DType, rows, n)
	want(op, "logits", logits, tensor.F32, rows, n)
	want(op, "dweights", dweights, tensor.F32, rows, k)
	r.check(op, rows, n)
	if b.Sums.Ok() {
		want(op, "Sums", b.Sums, tensor.F32, 2, n)
	}
	d.ran("route_backward")
	if d.gpu == nil {
		cpu.RouteBackward(dlogits, dweights, r.Experts, r.Weights, logits, r.LSE, b.Sums.Matrix(), b.Rows, b.Scale,
			normalized)
		return
	}
	d.launch(kernel{"op_experts_route.cu", "route_backward", define(macro{dlogits.DType.String(), 1})},
		line(blocks(rows, 8), 256),
		addr(dlogits), addr(dweights), addr(r.Experts), addr(r.Weights), addr(logits), addr(r.LSE), addr(b.Sums),
		i32(b.Rows), f32(b.Scale), i32(rows), i32(n), i32(k), flag(normalized))
}

// Combine adds up what the experts of each row computed, in the order of the experts:
//
//	y[r] = Σ_s Weights[r,s] · x[Place[r,s]]    or, unweighted,    y[r] = Σ_s x[Place[r,s]]
//
// The latter is the gradient of GatherRows(x, y, r.Rows). y is [rows, dim], x [rows·k, dim] of its type. Sums are in
// float32 and rounded once.
func (d *Device) Combine(y, x tensor.Tensor, r Routing, weighted bool) {
	const op = "Combine"
	floating(op, "y", y)
	dim := y.Dim(-1)
	want(op, "x", x, y.DType, r.Place.Len(), dim)
	want(op, "Place", r.Place, tensor.I32, y.Rows(), r.Place.Dim(-1))
	var weights tensor.Tensor
	if weighted {
		weights = r.Weights
	}
	d.ran("combine")
	if d.gpu == nil {
		cpu.Combine(y, x, weights.Matrix(), r.Place)
		return
	}
	d.launch(kernel{"op_experts.cu", "combine", rowsOf(y.Matrix())}, each(vectors(y.Matrix())), addr(y), addr(x),
		addr(weights), addr(r.Place), i32(y.Rows()), i32(r.Place.Dim(-1)))
}

// WeighPairs computes the gradient of Combine through the linear layer before it. That layer is y = x·wᵀ. At first dx
// is dy[r]·w, the gradient of x if all weights were 1, so that
//
//	dweights[r,s] = dx[p] · x[p],    p = Place[r,s]
//
// Then dx[p] and x[p] are multiplied by Weights[r,s], which makes dx the gradient of x, and x a factor of the gradient
// of w. x and dx are [rows·k, dim] of the same type; dweights is like Weights.
func (d *Device) WeighPairs(dweights, dx, x tensor.Tensor, r Routing) {
	const op = "WeighPairs"
	floating(op, "x", x)
	want(op, "x", x, x.DType, r.Place.Len(), x.Dim(-1))
	want(op, "dx", dx, x.DType, x.Len())
	want(op, "dweights", dweights, tensor.F32, r.Place.Len())
	d.ran("weigh_pairs")
	if d.gpu == nil {
		cpu.WeighPairs(dweights, dx, x, r.Weights, r.Place)
		return
	}
	pairs := r.Place.Len()
	d.launch(kernel{"op_experts.cu", "weigh_pairs", rowsOf(x.Matrix())}, line(blocks(pairs, 8), 256), addr(dweights),
		addr(dx).twice(true), addr(x).twice(true), addr(r.Weights), addr(r.Place), i32(pairs))
}
