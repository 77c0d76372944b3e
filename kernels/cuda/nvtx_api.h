// The part of NVTX, NVIDIA's library of marks for profilers, that is used. As in api.h, names, types and values are
// NVIDIA's own, and a test compares them with its header.
#ifndef RESTYLE_CUDA_NVTX_API_H
#define RESTYLE_CUDA_NVTX_API_H

#include <stdint.h>

// NVTX_CONSTANTS(X) lists values: X(name, value).
#define NVTX_CONSTANTS(X) X(NVTX_MESSAGE_TYPE_ASCII, 1)

#ifndef NVTX_VERSION // the test takes the types from NVIDIA's header
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;

// Of version 2, which both libraries accept.
typedef struct {
	uint16_t version, size;
	uint32_t category;
	int32_t colorType;
	uint32_t color;
	int32_t payloadType, reserved0;
	uint64_t payload;
	int32_t messageType;
	union {
		const char *ascii;
	} message;
} nvtxEventAttributes_t;

enum {
#define VALUE(name, value) name = value,
	NVTX_CONSTANTS(VALUE)
#undef VALUE
};
#endif

// NVTX(X) lists the functions: X(type, name, parameters).
#define NVTX(X) \
	X(nvtxDomainHandle_t, nvtxDomainCreateA, (const char *name)) \
	X(int, nvtxDomainRangePushEx, (nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)) \
	X(int, nvtxDomainRangePop, (nvtxDomainHandle_t domain))

#endif
