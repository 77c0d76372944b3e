// The emulated GPU's cuBLASLt: it reads the descriptors, rejects wrong ones, and multiplies.
#include "emulator.h"

extern "C" {
#include "../blas.h"
}
#include <string.h>

#include <vector>

enum { BLAS_EXECUTION_FAILED = 13, BLAS_TOLD = 14 };
#define BLAS_CALLED \
	if (told(__func__)) return BLAS_TOLD

struct cublasLtContext {};
struct cublasLtMatmulDesc {
	int compute, scale, transposed[2] = {CUBLAS_OP_N, CUBLAS_OP_N}, epilogue = 1;
	uint64_t bias = 0;
};
struct cublasLtMatrixLayout {
	int type;
	uint64_t rows, cols;
	int64_t ld;
	int32_t batch = 1;
	int64_t next = 0; // elements from one matrix of the batch to the next
	uint64_t size() const { return type == CUDA_R_32F ? 4 : 2; }
	uint64_t bytes() const { return ((batch - 1) * next + (cols - 1) * ld + rows) * size(); }
};
struct cublasLtMatmulPreference {
	uint64_t workspace = 0;
	uint32_t reduction = 7; // all schemes
	uint32_t align[4] = {256, 256, 256, 256};
};

EXPORT size_t cublasLtGetVersion() { return 130001; }
EXPORT const char *cublasLtGetStatusString(cublasStatus_t r) {
	switch (r) {
	case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
	case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
	case BLAS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
	case BLAS_TOLD: return lasting(told_why);
	}
	return "CUBLAS_STATUS_INTERNAL_ERROR";
}

// Functions that destroy do so even if they are told to fail.
#define BLAS_DESTROYS(name, type) \
	EXPORT cublasStatus_t name(type x) { \
		delete x; \
		BLAS_CALLED; \
		return CUBLAS_STATUS_SUCCESS; \
	}
BLAS_DESTROYS(cublasLtDestroy, cublasLtHandle_t)
BLAS_DESTROYS(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t)
BLAS_DESTROYS(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t)
BLAS_DESTROYS(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t)

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) {
	BLAS_CALLED;
	return *h = new cublasLtContext(), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescCreate(
	cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType scale) {
	BLAS_CALLED;
	*d = new cublasLtMatmulDesc();
	(*d)->compute = compute, (*d)->scale = scale;
	return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(
	cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, const void *value, size_t bytes) {
	BLAS_CALLED;
	void *field;
	size_t size = 4;
	switch (a) {
	case CUBLASLT_MATMUL_DESC_TRANSA: field = &d->transposed[0]; break;
	case CUBLASLT_MATMUL_DESC_TRANSB: field = &d->transposed[1]; break;
	case CUBLASLT_MATMUL_DESC_EPILOGUE: field = &d->epilogue; break;
	case CUBLASLT_MATMUL_DESC_BIAS_POINTER: field = &d->bias, size = 8; break;
	default: return CUBLAS_STATUS_INVALID_VALUE;
	}
	if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
	return memcpy(field, value, size), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(
	cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
	BLAS_CALLED;
	if ((type != CUDA_R_16BF && type != CUDA_R_16F && type != CUDA_R_32F) || !rows || !cols || ld < (int64_t)rows)
		return CUBLAS_STATUS_INVALID_VALUE;
	return *l = new cublasLtMatrixLayout{type, rows, cols, ld}, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(
	cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, const void *value, size_t bytes) {
	BLAS_CALLED;
	if (a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) memcpy(&l->batch, value, 4);
	else if (a == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) memcpy(&l->next, value, 8);
	else return CUBLAS_STATUS_INVALID_VALUE;
	return l->batch > 0 && l->next >= 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) {
	BLAS_CALLED;
	return *p = new cublasLtMatmulPreference(), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
	cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a, const void *value, size_t bytes) {
	BLAS_CALLED;
	if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8)
		return memcpy(&p->workspace, value, 8), CUBLAS_STATUS_SUCCESS;
	if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4)
		return memcpy(&p->reduction, value, 4), CUBLAS_STATUS_SUCCESS;
	if (a < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES || a > CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES || bytes != 4)
		return CUBLAS_STATUS_INVALID_VALUE;
	return memcpy(&p->align[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, 4), CUBLAS_STATUS_SUCCESS;
}

// blas_sizes returns whether the layouts fit each other, and the sizes of D = op(A)·op(B).
static bool blas_sizes(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
	cublasLtMatrixLayout_t out, uint64_t *m, uint64_t *n, uint64_t *k) {
	const bool ta = d->transposed[0] == CUBLAS_OP_T, tb = d->transposed[1] == CUBLAS_OP_T;
	*m = ta ? a->cols : a->rows, *k = ta ? a->rows : a->cols, *n = tb ? b->rows : b->cols;
	const bool batches = a->batch == out->batch && b->batch == out->batch && (out->batch == 1 || out->next > 0);
	return *k == (tb ? b->cols : b->rows) && out->rows == *m && out->cols == *n && a->type == b->type && batches;
}

// A blas_algorithm adds up in an order of its own, in a number of turns.
struct blas_algorithm {
	uint64_t number;
	bool fails;
	uint32_t scheme;
	double microseconds;
};
const uint64_t BLAS_MARK = 0xB1A5;

// blas_algorithms returns the algorithms that STANDIN_PRODUCTS lists, or one.
static std::vector<blas_algorithm> blas_algorithms() {
	std::vector<blas_algorithm> list;
	for (const char *at = products(); at; at = strchr(at, ',')) {
		if (*at == ',') at++;
		const bool fails = *at == 'x', rounds = *at == 'o';
		list.push_back({list.size(), fails, rounds ? 4u : 0u, atof(at + (fails || rounds))});
	}
	if (list.empty()) list.push_back({});
	return list;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
	cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
	cublasLtMatmulPreference_t p, int wanted, cublasLtMatmulHeuristicResult_t *results, int *count) {
	BLAS_CALLED;
	uint64_t m, n, k;
	*count = 0;
	if (wanted < 1 || !blas_sizes(desc, a, b, d, &m, &n, &k)) return CUBLAS_STATUS_INVALID_VALUE;
	if (a->type == CUDA_R_32F && d->type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
	for (const blas_algorithm &one : blas_algorithms()) {
		if (*count == wanted || (one.scheme & ~p->reduction)) continue;
		results[*count] = {};
		for (int i = 0; i < 4; i++) results[*count].algo.data[i] = p->align[i]; // what Matmul may rely on
		results[*count].algo.data[4] = one.number;
		results[*count].algo.data[5] = BLAS_MARK;
		results[(*count)++].workspaceSize = p->workspace;
	}
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
	cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *algo,
	cublasLtMatmulHeuristicResult_t *result) {
	BLAS_CALLED;
	if (algo->data[5] != BLAS_MARK || algo->data[4] >= blas_algorithms().size()) return CUBLAS_STATUS_INVALID_VALUE;
	return result->algo = *algo, CUBLAS_STATUS_SUCCESS;
}

static float blas_element(const void *p, int type, uint64_t i) {
	if (type == CUDA_R_32F) return ((const float *)p)[i];
	const uint16_t half = ((const uint16_t *)p)[i];
	return type == CUDA_R_16F ? emulated_of_f16(half) : __uint_as_float((uint32_t)half << 16);
}

// blas_rows returns op(X) or its transpose as floats, one row of k after the other.
static std::vector<float> blas_rows(
	const void *p, const cublasLtMatrixLayout &l, uint64_t rows, uint64_t k, bool down) {
	std::vector<float> x(rows * k);
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t i = 0; i < k; i++) x[r * k + i] = blas_element(p, l.type, down ? r * l.ld + i : i * l.ld + r);
	return x;
}

// blas_fault makes the GPU fail, as a kernel with such a fault would.
static cublasStatus_t blas_fault(const std::string &what) {
	why = "cublasLtMatmul " + what, failed = why_of = LAUNCH_FAILED;
	return BLAS_EXECUTION_FAILED;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
	cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta, const void *C,
	cublasLtMatrixLayout_t, void *D, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace,
	size_t workspaceBytes, cudaStream_t) {
	BLAS_CALLED;
	LOCKED;
	uint64_t m, n, k;
	if (failed) return BLAS_EXECUTION_FAILED;
	if (!blas_sizes(desc, a, b, d, &m, &n, &k) || C != D) return CUBLAS_STATUS_INVALID_VALUE;
	const void *operands[] = {A, B, C, D};
	const cublasLtMatrixLayout_t layouts[] = {a, b, d, d};
	for (int i = 0; i < 4; i++)
		for (int32_t one = 0; one < d->batch; one++)
			if (((uintptr_t)operands[i] + one * layouts[i]->next * layouts[i]->size()) % algo->data[i])
				return CUBLAS_STATUS_INVALID_VALUE;
	const uint64_t bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? desc->bias : 0;
	const char *const names[] = {"A", "B", "C"}; // as cuBLASLt has them
	for (int i = 0; i < 3; i++)
		if (!inside((uintptr_t)operands[i], layouts[i]->bytes()))
			return blas_fault("has " + std::string(names[i]) + " where no memory is");
	if (!inside((uintptr_t)workspace, workspaceBytes)) return blas_fault("has its workspace where no memory is");
	if (bias && !inside(bias, m * d->size())) return blas_fault("has its bias where no memory is");
	const blas_algorithm algorithm = blas_algorithms().at(algo->data[4]);
	if (algorithm.fails) return BLAS_EXECUTION_FAILED;
	products_took += algorithm.microseconds;
	if (idle()) return CUBLAS_STATUS_SUCCESS;
	const cublasLtMatrixLayout la = *a, lb = *b, ld = *d;
	const bool ta = desc->transposed[0] == CUBLAS_OP_T, tb = desc->transposed[1] == CUBLAS_OP_N;
	const float by = *(const float *)alpha, onto = *(const float *)beta;
	queue([=] {
		// exposes code that takes the workspace for its own
		memset(workspace, 0xFF, std::min(workspaceBytes, (size_t)1 << 20));
		for (int32_t one = 0; one < ld.batch; one++) {
			const std::vector<float> x = blas_rows((const char *)A + one * la.next * la.size(), la, m, k, ta);
			const std::vector<float> y = blas_rows((const char *)B + one * lb.next * lb.size(), lb, n, k, tb);
			for (uint64_t j = 0; j < n; j++) {
				const uint64_t row = one * ld.next + j * ld.ld;
				for (uint64_t i = 0; i < m; i++) {
					float sum = 0;
					for (uint64_t turn = 0; turn <= algorithm.number; turn++)
						for (uint64_t e = turn; e < k; e += algorithm.number + 1) sum += x[i * k + e] * y[j * k + e];
					sum *= by;
					if (onto != 0) sum += onto * blas_element(C, ld.type, row + i);
					if (bias) sum += blas_element((const void *)bias, ld.type, i);
					if (ld.type == CUDA_R_32F) ((float *)D)[row + i] = sum;
					else ((uint16_t *)D)[row + i] = ld.type == CUDA_R_16F ? emulated_f16(sum) : emulated_bf16(sum);
				}
				wrote((uintptr_t)D + row * ld.size(), m * ld.size());
			}
		}
		return CUDA_SUCCESS;
	});
	return CUBLAS_STATUS_SUCCESS;
}
