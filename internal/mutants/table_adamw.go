package main

// adamWMutants are faults of the optimizer on a GPU, and of its codes.
var adamWMutants = []mutant{
	{"adamw/a-nan-is-carried", "kernels/adamw.cu", "if (sum != sum) {", "if (false) {", "./kernels -run Split8|StochasticN"},
	{"adamw/ties-of-24-bits", "kernels/adamw.cu", "bits[j] += 0x807F + (bits[j] >> 8 & 1);", "bits[j] += 0x807F;", "./kernels -run Split8"},
	{"adamw/clip-ignored", "kernels/adamw.cu", "control ? gradScale * control[2] : gradScale", "gradScale", "./optim -run TestGPU"},
	{"adamw/anywhere-in-vectors", "kernels/adamw.cu", "aligned ? (unsigned)(n / QUANT_BLOCK) : 0", "(unsigned)(n / QUANT_BLOCK)", "./kernels -run AdamWAnywhere"},
	{"adamw/bnb-beyond-the-end", "kernels/adamw.cu", "BNB ? 128 : 127", "127", "./kernels -run AdamWEnd"},
	{"adamw/bnb-codes-roots", "kernels/adamw.cu", "vMap.fill(!BNB);", "vMap.fill(true);", "./kernels -run AdamWOnGPU"},
	{"adamw/first-of-a-part", "kernels/adamw.go", "x.First += first", "x.First = 0", "./kernels -run AdamWRanges"},
	{"adamw/minus-one", "kernels/codes.cuh", "fmaxf(x[i] * by, -0.99f)", "x[i] * by", "./kernels -run TestQuantize"},
	{"adamw/codes-below-zero", "kernels/codes.cuh", "code = (code ^ minus) - (minus & 0x01010101);", "code ^= minus;", "./kernels -run TestQuantize"},
	{"adamw/ties-of-codes", "kernels/codes.cuh", "((i % 2 == 1) != Signed)", "0", "./kernels -run TestQuantize"},
	{"adamw/least-too-large", "kernels/codes.cuh", "LEAST = Signed ? -22 : -23", "LEAST = Signed ? -21 : -23", "./kernels -run TestQuantize"},
}
