// Compiles only where blas.h says of every function and value what NVIDIA's headers say.
#include <cuda.h>
#include <cublasLt.h>

#include "../blas.h"

#define SAME(name, value) _Static_assert((int)name == value, #name);
BLAS_CONSTANTS(SAME)

#define IS_BLAS(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), cublasStatus_t(*) parameters), #name);
BLAS(IS_BLAS)

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 && sizeof(cublasLtMatmulHeuristicResult_t) == 96, "sizes");
_Static_assert(
	__builtin_types_compatible_p(__typeof__(&cublasLtGetStatusString), const char *(*)(cublasStatus_t)), "text");
_Static_assert(__builtin_types_compatible_p(__typeof__(&cublasLtGetVersion), size_t(*)(void)), "version");
