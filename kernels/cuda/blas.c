// libcublasLt: matrix products.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "driver.h"
#include "library.h"
#include "shim.h"

typedef struct {
#define FIELD(name, parameters) cublasStatus_t (*name) parameters;
	BLAS(FIELD)
#undef FIELD
	const char *(*cublasLtGetStatusString)(cublasStatus_t);
	size_t (*cublasLtGetVersion)(void);
} library;

typedef struct {
	library *api;
	cublasLtHandle_t handle;
} blas;

typedef struct {
	blas *blas;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	float alpha;
	cublasLtMatmulHeuristicResult_t algorithms[CUDA_MAX_ALGORITHMS];
} plan;

uintptr_t cuda_open_blas(const char *path, cuda_blas *out, char *message, int size) {
	void *handle = open_library(path, message, size);
	if (!handle) return 0;
	library *l = calloc(1, sizeof *l);
	const char *missing = NULL;
#define LOOKUP(name, parameters) \
	if (!(l->name = (cublasStatus_t(*) parameters)dlsym(handle, #name))) missing = #name;
	BLAS(LOOKUP)
#undef LOOKUP
	l->cublasLtGetStatusString = (const char *(*)(cublasStatus_t))dlsym(handle, "cublasLtGetStatusString");
	l->cublasLtGetVersion = (size_t(*)(void))dlsym(handle, "cublasLtGetVersion");
	if (!l->cublasLtGetStatusString || !l->cublasLtGetVersion) missing = "cublasLtGetStatusString or cublasLtGetVersion";
	if (missing) {
		snprintf(message, size, "it has no %s: cuBLASLt 11.4 or newer is needed", missing);
		free(l);
		return 0;
	}
	out->version = l->cublasLtGetVersion();
	name_file((void *)l->cublasLtGetVersion, out->path, sizeof out->path);
	return out->library = (uintptr_t)l;
}

// result returns the result of a call for a GPU. If the GPU has failed, that is the reason why the call did.
static cuda_status result(uintptr_t gpu, library *l, cublasStatus_t r) {
	uint64_t available, total;
	if (r == CUBLAS_STATUS_SUCCESS) return (cuda_status){0};
	cuda_status s = cuda_memory(gpu, &available, &total); // a call that is also allowed during a capture
	return s.code ? s : (cuda_status){r, "cuBLASLt", l->cublasLtGetStatusString(r)};
}

// BIND returns from the function with the driver's error unless the GPU's context is bound to the thread.
#define BIND(gpu_) \
	do { \
		cuda_status s_ = cuda_bind(gpu_); \
		if (s_.code) return s_; \
	} while (0)

cuda_status cuda_blas_start(uintptr_t gpu, uintptr_t library_, uintptr_t *out) {
	library *l = (library *)library_;
	BIND(gpu);
	blas *b = calloc(1, sizeof *b);
	b->api = l;
	cublasStatus_t r = l->cublasLtCreate(&b->handle);
	if (r == CUBLAS_STATUS_SUCCESS) {
		*out = (uintptr_t)b;
	} else {
		free(b);
	}
	return result(gpu, l, r);
}

cuda_status cuda_blas_stop(uintptr_t gpu, uintptr_t blas_) {
	blas *b = (blas *)blas_;
	BIND(gpu);
	library *l = b->api;
	cublasStatus_t r = l->cublasLtDestroy(b->handle);
	free(b);
	return result(gpu, l, r);
}

// choose asks for algorithms for a product whose descriptors have been created.
static cublasStatus_t choose(plan *p, const cuda_product *c, int *count) {
	library *l = p->blas->api;
	cublasLtMatmulPreference_t preference;
	cublasStatus_t r = l->cublasLtMatmulPreferenceCreate(&preference);
	if (r) return r;
	const uint32_t align[] = {c->align_b, c->align_a, c->align_c, c->align_c}; // its first operand is our second
	// parts are added up in float32, in order, or there are none
	const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	r = l->cublasLtMatmulPreferenceSetAttribute(
		preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &c->workspace, sizeof c->workspace);
	if (!r)
		r = l->cublasLtMatmulPreferenceSetAttribute(
			preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction);
	for (int i = 0; i < 4 && !r; i++) {
		r = l->cublasLtMatmulPreferenceSetAttribute(
			preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, &align[i], sizeof align[i]);
	}
	if (!r) {
		r = l->cublasLtMatmulAlgoGetHeuristic(
			p->blas->handle, p->desc, p->b, p->a, p->c, p->c, preference, CUDA_MAX_ALGORITHMS, p->algorithms, count);
	}
	l->cublasLtMatmulPreferenceDestroy(preference);
	// If cuBLASLt calls a product's values invalid, it cannot compute it, but another kernel may.
	return r == CUBLAS_STATUS_INVALID_VALUE ? CUBLAS_STATUS_NOT_SUPPORTED : r;
}

// layout creates the layout of a matrix, or of a batch of matrices.
static cublasStatus_t layout(library *l, cublasLtMatrixLayout_t *out, int type, uint64_t rows, uint64_t cols,
	int64_t ld, int32_t batch, int64_t next) {
	cublasStatus_t r = l->cublasLtMatrixLayoutCreate(out, type, rows, cols, ld);
	if (!r) r = l->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
	if (!r) r = l->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &next, sizeof next);
	return r;
}

// describe creates the descriptors of a product. cuBLASLt's matrices are column-major: to it each of ours is its own
// transpose, and C = A·B is Cᵀ = Bᵀ·Aᵀ.
static cublasStatus_t describe(plan *p, const cuda_product *c) {
	library *l = p->blas->api;
	const int32_t ops[] = {c->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, c->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N};
	const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	const int type = c->type, result = c->c_type;
	cublasStatus_t r;
	if ((r = l->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F))) return r;
	if ((r = l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ops[0], sizeof ops[0]))) return r;
	if ((r = l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &ops[1], sizeof ops[1]))) return r;
	if (c->bias &&
		(r = l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)))
		return r;
	if ((r = layout(l, &p->b, type, c->trans_b ? c->k : c->n, c->trans_b ? c->n : c->k, c->ldb, c->batch, c->next_b)))
		return r;
	if ((r = layout(l, &p->a, type, c->trans_a ? c->m : c->k, c->trans_a ? c->k : c->m, c->lda, c->batch, c->next_a)))
		return r;
	return layout(l, &p->c, result, c->n, c->m, c->ldc, c->batch, c->next_c);
}

static void discard(plan *p) {
	library *l = p->blas->api;
	if (p->desc) l->cublasLtMatmulDescDestroy(p->desc);
	if (p->a) l->cublasLtMatrixLayoutDestroy(p->a);
	if (p->b) l->cublasLtMatrixLayoutDestroy(p->b);
	if (p->c) l->cublasLtMatrixLayoutDestroy(p->c);
	free(p);
}

cuda_status cuda_plan(uintptr_t gpu, uintptr_t blas_, const cuda_product *product, uintptr_t *out, int *count) {
	BIND(gpu);
	plan *p = calloc(1, sizeof *p);
	p->blas = (blas *)blas_, p->alpha = product->alpha;
	library *l = p->blas->api;
	cublasStatus_t r = describe(p, product);
	*count = 0;
	if (!r) r = choose(p, product, count);
	if (r == CUBLAS_STATUS_NOT_SUPPORTED || r == CUBLAS_STATUS_ARCH_MISMATCH) r = CUBLAS_STATUS_SUCCESS;
	if (r || *count == 0) {
		discard(p);
	} else {
		*out = (uintptr_t)p;
	}
	return result(gpu, l, r);
}

void cuda_algorithm(uintptr_t plan_, int algorithm, void *bytes) {
	memcpy(bytes, &((plan *)plan_)->algorithms[algorithm].algo, CUDA_ALGORITHM_BYTES);
}

cuda_status cuda_use_algorithm(uintptr_t gpu, uintptr_t plan_, const void *bytes, uint64_t workspace) {
	plan *p = (plan *)plan_;
	library *l = p->blas->api;
	cublasLtMatmulAlgo_t algorithm;
	cublasLtMatmulHeuristicResult_t found = {0};
	BIND(gpu);
	memcpy(&algorithm, bytes, sizeof algorithm);
	cublasStatus_t r = l->cublasLtMatmulAlgoCheck(p->blas->handle, p->desc, p->b, p->a, p->c, p->c, &algorithm, &found);
	if (!r && found.workspaceSize > workspace) r = CUBLAS_STATUS_NOT_SUPPORTED;
	if (!r) p->algorithms[0].algo = algorithm;
	return result(gpu, l, r);
}

void cuda_discard_plan(uintptr_t plan_) { discard((plan *)plan_); }

cuda_status cuda_multiply(uintptr_t gpu, uintptr_t plan_, int algorithm, uint64_t a, uint64_t b, uint64_t c,
	uint64_t bias, int add, uint64_t workspace, uint64_t bytes) {
	plan *p = (plan *)plan_;
	library *l = p->blas->api;
	const float beta = add ? 1 : 0;
	cublasStatus_t r = CUBLAS_STATUS_SUCCESS;
	BIND(gpu);
	if (bias) r = l->cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
	if (!r) {
		r = l->cublasLtMatmul(p->blas->handle, p->desc, &p->alpha, (void *)b, p->b, (void *)a, p->a, &beta, (void *)c, p->c,
			(void *)c, p->c, &p->algorithms[algorithm].algo, (void *)workspace, bytes, cuda_stream(gpu));
	}
	return result(gpu, l, r);
}
