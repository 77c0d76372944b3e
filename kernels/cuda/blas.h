// The part of cuBLASLt that is used, declared here as api.h declares the driver's.
#ifndef RESTYLE_CUDA_BLAS_H
#define RESTYLE_CUDA_BLAS_H

#include <stdint.h>

#include "api.h"

// BLAS_CONSTANTS(X) lists values: X(name, value).
#define BLAS_CONSTANTS(X) \
	X(CUBLAS_STATUS_SUCCESS, 0) \
	X(CUBLAS_STATUS_INVALID_VALUE, 7) \
	X(CUBLAS_STATUS_ARCH_MISMATCH, 8) \
	X(CUBLAS_STATUS_NOT_SUPPORTED, 15) \
	X(CUBLAS_OP_N, 0) \
	X(CUBLAS_OP_T, 1) \
	X(CUBLAS_COMPUTE_32F, 68) \
	X(CUDA_R_32F, 0) \
	X(CUDA_R_16F, 2) \
	X(CUDA_R_16BF, 14) \
	X(CUBLASLT_MATMUL_DESC_TRANSA, 3) \
	X(CUBLASLT_MATMUL_DESC_TRANSB, 4) \
	X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7) \
	X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) \
	X(CUBLASLT_EPILOGUE_BIAS, 4) \
	X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5) \
	X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
	X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1) \
	X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3) \
	X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2) \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6) \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7) \
	X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

#ifndef CUBLAS_VER_MAJOR // the test takes the types from NVIDIA's headers
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreference *cublasLtMatmulPreference_t;
typedef struct {
	uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef int cublasStatus_t;
typedef int cublasComputeType_t;
typedef int cudaDataType;
typedef int cublasLtMatmulDescAttributes_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef CUstream cudaStream_t;
typedef struct {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
	float wavesCount;
	int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum {
#define VALUE(name, value) name = value,
	BLAS_CONSTANTS(VALUE)
#undef VALUE
};
#endif

// BLAS(X) lists the functions of libcublasLt: X(name, parameters), each returning cublasStatus_t. Not in the list are
// cublasLtGetStatusString, which returns text, and cublasLtGetVersion, which returns a size_t.
#define BLAS(X) \
	X(cublasLtCreate, (cublasLtHandle_t * handle)) \
	X(cublasLtDestroy, (cublasLtHandle_t handle)) \
	X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType scale)) \
	X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc)) \
	X(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t a, const void *value, \
		size_t bytes)) \
	X(cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols, \
		int64_t ld)) \
	X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout)) \
	X(cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t a, \
		const void *value, size_t bytes)) \
	X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference)) \
	X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference)) \
	X(cublasLtMatmulPreferenceSetAttribute, (cublasLtMatmulPreference_t preference, \
		cublasLtMatmulPreferenceAttributes_t a, const void *value, \
		size_t bytes)) \
	X(cublasLtMatmulAlgoGetHeuristic, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, \
		cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, \
		int wanted, cublasLtMatmulHeuristicResult_t *results, int *count)) \
	X(cublasLtMatmulAlgoCheck, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, \
		cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, \
		cublasLtMatmulHeuristicResult_t *result)) \
	X(cublasLtMatmul, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A, \
		cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta, const void *C, \
		cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace, \
		size_t workspaceBytes, cudaStream_t stream))

#endif
