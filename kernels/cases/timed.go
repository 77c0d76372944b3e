package cases

import "restyle/tensor"

// Timed are cases to be timed, of the sizes of Llama-3.2-1B and of a model of five million parameters: memory decides the speed
// of the first, caches that of the others.
func Timed(t tensor.DType) []*Case {
	index := make([]int, 1024)
	for i := range index {
		index[i] = 2 * i
	}
	return []*Case{
		addCase(t, 2048*2048), addCase(t, 512*256),
		rmsNormCase(t, 2048, 2048), rmsNormCase(t, 512, 256),
		addRMSNormCase(t, 2048, 2048), addRMSNormCase(t, 512, 256),
		qkNormCase(t, 2048, 32, 8, 64), qkNormCase(t, 512, 8, 4, 32),
		ropeCase(t, 2048, 32, 8, 64), ropeCase(t, 512, 8, 4, 32),
		swiGLUCase(t, 2048, 8192), swiGLUCase(t, 512, 688),
		geluCase(t, 2048, 8192, false), geluCase(t, 512, 688, false), geluCase(t, 2048, 8192, true), geluCase(t, 512, 688, true),
		embeddingCase(t, 2048, 20000, 2048, 20000), embeddingCase(t, 512, 4096, 256, 4096),
		rowsCase(t, 2048, 2048, index),
		crossEntropyCase(t, 300, 128256, nil, true), crossEntropyCase(t, 512, 4096, nil, true),
		adamWCase(t, 4<<20, 10, false), adamWCase(t, 256*688, 10, false),
	}
}
