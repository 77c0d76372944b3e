package main

// gptMutants are the faults of what GPT-2 needs: LayerNorm, learned positions, its block and files.
var gptMutants = []mutant{
	{"gpt/layernorm-tail-counts", "kernels/cpu/ops_norm.c", "n == VLEN ? x : vload_part((const float *)&x, n)", "x", "./kernels -run TestOps/layernorm|LayerNorm"},
	{"gpt/layernorm-mean-as-summed", "kernels/cpu/ops_norm.c", "mean[k] += off[k] = vsum(rest[k]) / (float)dim", "off[k] = 0", "./kernels -run TestOps/layernorm|LayerNorm"},
	{"gpt/layernorm-no-shift", "kernels/cpu/ops_norm.c", "centered && bias ? ld(bias, i, n, type) : vzero()", "vzero()", "./kernels -run TestOps/layernorm|LayerNorm"},
	{"gpt/layernorm-mean-of-gradient", "kernels/cpu/ops_norm.c", "d * weight - of_one[k] - xhat", "d * weight - xhat", "./kernels -run TestOps/layernorm|LayerNorm"},
	{"gpt/layernorm-db-in-dw", "kernels/cpu/ops_norm.c", "dw && o->width > o->dim ? dw + o->dim : NULL", "dw && o->width > o->dim ? dw : NULL", "./kernels -run TestOps/layernorm|LayerNorm"},
	{"gpt/layernorm-narrow-partials", "kernels/layernorm.go", "w.Len() * (1 + number(db.Ok()))", "w.Len()", "./kernels -run TestOps/layernorm|LayerNorm|ScratchOf"},
	{"gpt/layernorm-scratch-of-dw", "kernels/sizes.go", "\"layernorm\", 2*s.Dim", "\"layernorm\", s.Dim", "./kernels -run ScratchOf"},
	{"gpt/layernorm-gpu-lanes-outside", "kernels/norm.cuh", "			if (!inside(k)) continue;\n#pragma unroll\n			for (int i = 0; i < WIDTH; i++) {\n				squares[0]", "#pragma unroll\n			for (int i = 0; i < WIDTH; i++) {\n				squares[0]", "./kernels/cases -run TestEmulated/layernorm"},
	{"gpt/layernorm-gpu-same-partials", "kernels/norm.cuh", "sumRows(partials + DIM, db)", "sumRows(partials, db)", "./kernels/cases -run TestEmulated/layernorm"},
	{"gpt/layernorm-gpu-partials-of-dw", "kernels/norm.cuh", "(biased ? 2 : 1)", "1", "./kernels/cases -run TestEmulated/layernorm"},
}
