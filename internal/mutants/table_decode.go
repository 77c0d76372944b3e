package main

// decodeMutants are faults in how a GPU computes an answer token by token.
var decodeMutants = []mutant{
	{"decode/known-after-prompt", "model/token.go", "		c.known = false\n", "", "./model -run Greedy"},
	{"decode/done-after-prompt", "model/cache.go", "p.cache, c.done = c, false", "p.cache = c", "./model -run Greedy"},
	{"decode/known-wrong-token", "model/token.go", "!c.known || c.last != token", "!c.known", "./model -run Greedy"},
	{"decode/known-for-ever", "model/token.go", "c.known, c.done = false, true", "c.done = true", "./model -run Greedy"},
	{"decode/broken-is-known", "model/token.go", "binary.NativeEndian.Uint32(token)); id < 0", "binary.NativeEndian.Uint32(token)); id < -1", "./model -run Greedy"},
	{"decode/graph-beyond-reach", "model/token.go", "c.n < c.reach && c.angles", "c.angles", "./model -run StepCaches"},
	{"decode/graph-of-other-angles", "model/token.go", "c.n < c.reach && c.angles == m.rope.cos.Addr", "c.n < c.reach", "./model -run StepCaches"},
	{"decode/reach-too-small", "model/token.go", "m.launch(c, p, c.reachOf(c.n+1))", "m.launch(c, p, c.reachOf(c.n))", "./model -run StepCaches"},
	{"decode/position-before-choice", "model/token.go", "[]int32{0, int32(c.n - 1)}", "[]int32{0, int32(c.n)}", "./model -run Greedy"},
	{"decode/last-of-equals", "kernels/argmax.cu", "b.value == a.value && b.at < a.at", "b.value == a.value && b.at > a.at", "./kernels/cases -run TestEmulated/decode"},
	{"decode/broken-forgotten", "kernels/argmax.cu", "broken = a.broken | b.broken", "broken = a.broken", "./kernels/cases -run TestEmulated/decode"},
	{"decode/position-stays", "kernels/argmax.cu", "next[1]++;", "", "./kernels/cases -run TestEmulated/decode"},
	{"decode/norm-not-waited-for", "kernels/matvec.cu", "row[k] = y.words[0];\n\t}\n\t__syncthreads();", "row[k] = y.words[0];\n\t}", "./kernels/cases -run TestEmulated/decode"},
	{"decode/up-without-bias", "kernels/matvec.cu", "value(bias[n + s])", "value(bias[s])", "./kernels/cases -run TestEmulated/decode"},
	{"decode/weights-read-once", "kernels/matvec.cu", "if (!NORMED || k > begin) read(k);", "if (!NORMED) read(k);", "./kernels/cases -run TestEmulated/decode"},
	{"decode/window-first", "kernels/attention_decode.cu", "max(0, last - window + 1) : 0) + blockIdx.x", "max(0, last - window) : 0) + blockIdx.x", "./kernels/cases -run TestEmulated/decode"},
	{"decode/two-store-a-key", "kernels/attention_decode.cu", "own >= 0 && head % share == 0", "own >= 0", "./kernels/cases -run TestEmulated/decode"},
	{"decode/own-key-from-cache", "kernels/attention_decode.cu", "last - from < BLOCK_DIM ? last - from : -1", "-1", "./kernels/cases -run TestEmulated/decode"},
	{"decode/combines-too-few", "kernels/attention_decode.cu", "seen = *position + 1;", "seen = *position;", "./kernels/cases -run TestEmulated/decode"},
	{"decode/sine-of-query", "kernels/attention_decode.cu", "a * cosine - b * sine", "a * cosine + b * sine", "./kernels/cases -run TestEmulated/decode"},
	{"decode/penalty-ignored", "infer/sampling.go", "s.Temperature == 0 && !s.penalises()", "s.Temperature == 0", "./infer -run ChosenOnGPU"},
	{"decode/temperature-ignored", "infer/sampling.go", "s.Temperature == 0 && !s.penalises()", "!s.penalises()", "./infer -run ChosenOnGPU"},
}
