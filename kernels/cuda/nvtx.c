// libnvtx3interop or libnvToolsExt: ranges on a profiler's time line.
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "nvtx_api.h"
#include "shim.h"

typedef struct {
#define FIELD(type, name, parameters) type (*name) parameters;
	NVTX(FIELD)
#undef FIELD
	nvtxDomainHandle_t domain;
} nvtx;

uintptr_t cuda_open_nvtx(const char *path, char *message, int size) {
	void *library = open_library(path, message, size);
	if (!library) return 0;
	nvtx n;
#define LOOKUP(type, name, parameters) \
	if (!(n.name = (type(*) parameters)dlsym(library, #name))) { \
		snprintf(message, size, "it has no %s", #name); \
		return 0; \
	}
	NVTX(LOOKUP)
#undef LOOKUP
	if (!(n.domain = n.nvtxDomainCreateA("restyle"))) { // a profiler would have created it
		snprintf(message, size, "no profiler listens");
		return 0;
	}
	nvtx *made = malloc(sizeof *made);
	*made = n;
	return (uintptr_t)made;
}

void cuda_begin_range(uintptr_t nvtx_, const char *name) {
	nvtx *n = (nvtx *)nvtx_;
	nvtxEventAttributes_t a = {
		.version = 2, .size = sizeof a, .messageType = NVTX_MESSAGE_TYPE_ASCII, .message = {.ascii = name}};
	n->nvtxDomainRangePushEx(n->domain, &a);
}

void cuda_end_range(uintptr_t nvtx_) {
	nvtx *n = (nvtx *)nvtx_;
	n->nvtxDomainRangePop(n->domain);
}
