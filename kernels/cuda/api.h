// The part of CUDA's driver API and of NVRTC that is used, declared here so that building needs nothing of CUDA's: the
// libraries are opened while the program runs. Names, types and values are CUDA's own; a test compares them with
// NVIDIA's headers if it finds them. A name with a version at its end is the library's name of the symbol.
#ifndef RESTYLE_CUDA_API_H
#define RESTYLE_CUDA_API_H

#include <stddef.h>

// CONSTANTS(X) lists values: X(name, value).
#define CONSTANTS(X) \
	X(CUDA_SUCCESS, 0) \
	X(CUDA_ERROR_INVALID_VALUE, 1) \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2) \
	X(CUDA_ERROR_NO_DEVICE, 100) \
	X(CUDA_ERROR_INVALID_DEVICE, 101) \
	X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20) \
	X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) \
	X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37) \
	X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38) \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
	X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
	X(CU_COMPUTEMODE_PROHIBITED, 2) \
	X(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 3) \
	X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
	X(CU_MEMHOSTALLOC_DEVICEMAP, 2) \
	X(CU_STREAM_NON_BLOCKING, 1) \
	X(CU_STREAM_CAPTURE_MODE_RELAXED, 2) \
	X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6) \
	X(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 9) \
	X(CU_TENSOR_MAP_INTERLEAVE_NONE, 0) \
	X(CU_TENSOR_MAP_SWIZZLE_64B, 2) \
	X(CU_TENSOR_MAP_SWIZZLE_128B, 3) \
	X(CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3) \
	X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0) \
	X(CU_EVENT_DEFAULT, 0) \
	X(CU_EVENT_DISABLE_TIMING, 2) \
	X(NVRTC_SUCCESS, 0) \
	X(NVRTC_ERROR_COMPILATION, 6) \
	X(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7) \
	X(NVRTC_ERROR_INTERNAL_ERROR, 11)

#ifndef CUDA_VERSION // the test takes the types from NVIDIA's headers
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct {
	char bytes[16];
} CUuuid;

typedef unsigned long long cuuint64_t;
typedef unsigned int cuuint32_t;
typedef struct __attribute__((aligned(64))) {
	cuuint64_t opaque[16];
} CUtensorMap;

// Enumerations are passed as int, which has their size.
typedef int CUresult;
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
typedef int CUstreamCaptureMode;
typedef int CUlaunchAttributeID;
typedef int CUtensorMapDataType;
typedef int CUtensorMapInterleave;
typedef int CUtensorMapSwizzle;
typedef int CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
typedef int nvrtcResult;

// The parameters of cuLaunchKernelEx. Only the attribute for programmatic dependent launch is used.
typedef union {
	char bytes[64];
	unsigned long long aligned;
	int programmaticStreamSerializationAllowed;
} CUlaunchAttributeValue;
typedef struct {
	CUlaunchAttributeID id;
	CUlaunchAttributeValue value;
} CUlaunchAttribute;
typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

enum {
#define VALUE(name, value) name = value,
	CONSTANTS(VALUE)
#undef VALUE
};
#endif

// DRIVER(X) lists the functions of libcuda: X(name, parameters), each returning CUresult.
#define DRIVER(X) \
	X(cuInit, (unsigned int flags)) \
	X(cuDriverGetVersion, (int *version)) \
	X(cuGetErrorName, (CUresult error, const char **name)) \
	X(cuGetErrorString, (CUresult error, const char **text)) \
	X(cuDeviceGetCount, (int *count)) \
	X(cuDeviceGet, (CUdevice *device, int ordinal)) \
	X(cuDeviceGetName, (char *name, int size, CUdevice device)) \
	X(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device)) \
	X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device)) \
	X(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device)) \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
	X(cuCtxSetCurrent, (CUcontext context)) \
	X(cuStreamCreate, (CUstream *stream, unsigned int flags)) \
	X(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority)) \
	X(cuStreamDestroy_v2, (CUstream stream)) \
	X(cuStreamSynchronize, (CUstream stream)) \
	X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags)) \
	X(cuMemGetInfo_v2, (size_t *available, size_t *total)) \
	X(cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes)) \
	X(cuMemFree_v2, (CUdeviceptr address)) \
	X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags)) \
	X(cuMemFreeHost, (void *memory)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(cuMemsetD8Async, (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)) \
	X(cuMemsetD32Async, (CUdeviceptr address, unsigned int value, size_t count, CUstream stream)) \
	X(cuModuleLoadData, (CUmodule *module, const void *image)) \
	X(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name)) \
	X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value)) \
	X(cuLaunchKernel, (CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, \
		unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, \
		void **parameters, void **extra)) \
	X(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)) \
	X(cuTensorMapEncodeTiled, (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, \
		const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, \
		CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, \
		CUtensorMapFloatOOBfill fill)) \
	X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode)) \
	X(cuStreamEndCapture, (CUstream stream, CUgraph *graph)) \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
	X(cuGraphDestroy, (CUgraph graph)) \
	X(cuGraphLaunch, (CUgraphExec exec, CUstream stream)) \
	X(cuGraphExecDestroy, (CUgraphExec exec)) \
	X(cuEventCreate, (CUevent *event, unsigned int flags)) \
	X(cuEventRecord, (CUevent event, CUstream stream)) \
	X(cuEventSynchronize, (CUevent event)) \
	X(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end)) \
	X(cuEventDestroy_v2, (CUevent event))

// COMPILER(X) lists the functions of libnvrtc, each returning nvrtcResult. nvrtcGetErrorString is not in the list: it
// returns text.
#define COMPILER(X) \
	X(nvrtcVersion, (int *major, int *minor)) \
	X(nvrtcGetNumSupportedArchs, (int *count)) \
	X(nvrtcGetSupportedArchs, (int *archs)) \
	X(nvrtcCreateProgram, (nvrtcProgram *program, const char *source, const char *name, int headers, \
		const char *const *contents, const char *const *names)) \
	X(nvrtcDestroyProgram, (nvrtcProgram *program)) \
	X(nvrtcCompileProgram, (nvrtcProgram program, int count, const char *const *options)) \
	X(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *bytes)) \
	X(nvrtcGetProgramLog, (nvrtcProgram program, char *log)) \
	X(nvrtcGetCUBINSize, (nvrtcProgram program, size_t *bytes)) \
	X(nvrtcGetCUBIN, (nvrtcProgram program, char *image)) \
	X(nvrtcGetPTXSize, (nvrtcProgram program, size_t *bytes)) \
	X(nvrtcGetPTX, (nvrtcProgram program, char *image))

#endif
