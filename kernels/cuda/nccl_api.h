// The part of NCCL that is used, declared here as api.h declares the driver's. It has no structures that grow with
// NCCL's version.
#ifndef RESTYLE_CUDA_NCCL_API_H
#define RESTYLE_CUDA_NCCL_API_H

#include "api.h"

// NCCL_CONSTANTS(X) lists values: X(name, value).
#define NCCL_CONSTANTS(X) \
	X(ncclSuccess, 0) \
	X(ncclInProgress, 7) \
	X(ncclInt8, 0) \
	X(ncclFloat32, 7) \
	X(ncclFloat64, 8) \
	X(ncclBfloat16, 9) \
	X(ncclSum, 0)

#ifndef NCCL_MAJOR // the types are NVIDIA's if its header is included
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef CUstream cudaStream_t;

enum {
#define VALUE(name, value) name = value,
	NCCL_CONSTANTS(VALUE)
#undef VALUE
};
#endif

// NCCL(X) lists the functions of libnccl: X(name, parameters), each returning ncclResult_t. Not in the list is
// ncclGetErrorString, which returns text, and ncclGetLastError, which does too and which old versions lack.
#define NCCL(X) \
	X(ncclGetVersion, (int *version)) \
	X(ncclGetUniqueId, (ncclUniqueId * id)) \
	X(ncclCommInitRank, (ncclComm_t * comm, int size, ncclUniqueId id, int rank)) \
	X(ncclCommDestroy, (ncclComm_t comm)) \
	X(ncclCommAbort, (ncclComm_t comm)) \
	X(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * result)) \
	X(ncclGroupStart, (void)) \
	X(ncclGroupEnd, (void)) \
	X(ncclAllReduce, (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
		cudaStream_t stream)) \
	X(ncclReduce, (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, \
		ncclComm_t comm, cudaStream_t stream)) \
	X(ncclBroadcast, (const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, \
		cudaStream_t stream)) \
	X(ncclSend, (const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) \
	X(ncclRecv, (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))

#endif
