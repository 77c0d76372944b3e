package kernels

import "restyle/tensor"

// A wgmmaCutting says how op_attention_wgmma.cu divides the scores: groups warpgroups have 64 queries each, and process
// keys keys at a time. See its macros. If lasting, thread blocks take one block of queries after the other, and there
// are only as many as run at the same time.
type wgmmaCutting struct {
	keys, groups, stages, overlap, turns, held, resident int
	lasting                                              bool
}

// wgmmaForward has the head dimensions for which there are such kernels.
var wgmmaForward = map[int]wgmmaCutting{
	64:  {keys: 128, groups: 2, stages: 2, overlap: 2, turns: 1, resident: 1, lasting: true},
	128: {keys: 128, groups: 2, stages: 2, overlap: 2, turns: 1, resident: 1, lasting: true},
}

// wgmmaMinRows is the minimum length of the longest sequence: for shorter ones the other kernels are as fast.
const wgmmaMinRows = 1

func (c wgmmaCutting) rows() int { return 64 * c.groups }

// shared returns the bytes of shared memory of a thread block: tiles of queries and results, and of keys and values,
// which start at a multiple of 1,024 bytes; a task, and barriers.
func (c wgmmaCutting) shared(dim int) int {
	return 1024 + 2*dim*(2*c.rows()+2*c.stages*c.keys) + 32 + 8*(3+4*c.stages)
}

// attentionWGMMA computes attentionGPU on the tensor cores of compute capability 9.0, and reports whether it could: for
// 16 bits, and heads that there is a cutting for.
func (d *Device) attentionWGMMA(y, lse, qkv tensor.Tensor, k, v tensor.Matrix, ahead int, s AttentionSpec) bool {
	c, ok := wgmmaForward[s.HeadDim]
	q, _, _ := s.parts(qkv)
	longest := s.longest()
	if !ok || !d.hasWGMMA() || !qkv.DType.Half() || longest < wgmmaMinRows || !wide(q, 8, 0, 0) || !wide(k, 8, 0, 0) ||
		!wide(v, 8, 0, 0) {
		return false
	}
	rows := qkv.Rows()
	k.Rows, v.Rows = ahead+rows, ahead+rows // the last rows of a cache may have nothing yet
	down, sequences := blocks(longest, c.rows()), len(s.CuSeqlens)-1
	count := down * sequences * s.Heads
	if c.lasting {
		count = min(count, c.resident*d.gpu.SMs)
	}
	g := line(count, 128*(c.groups+1))
	g.shared = c.shared(s.HeadDim)
	how := rowsOf(s.heads(qkv, s.Heads)).with("KEYS", c.keys).with("GROUPS", c.groups).with("STAGES", c.stages)
	how = how.with("OVERLAP", c.overlap).with("TURNS", c.turns).with("HELD", c.held).with("RESIDENT", c.resident)
	d.launch(kernel{"op_attention_wgmma.cu", "attention_wgmma", how}, g,
		tiles(d.tileMap(q, c.rows(), 64), q), tiles(d.tileMap(k, c.keys, 64), k), tiles(d.tileMap(v, c.keys, 64), v),
		addr(y), addr(lse), addr(s.Offsets), i32(sequences), i32(rows), i32(s.Heads), i32(s.share()), i32(ahead),
		i32(s.Window), flag(!s.Bidirectional), i32(down), f32(s.scale()))
	return true
}
