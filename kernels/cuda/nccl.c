// libnccl: sums over processes with a GPU each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "library.h"
#include "nccl_api.h"
#include "shim.h"

typedef struct {
#define FIELD(name, parameters) ncclResult_t (*name) parameters;
	NCCL(FIELD)
#undef FIELD
	const char *(*ncclGetErrorString)(ncclResult_t);
	const char *(*ncclGetLastError)(ncclComm_t); // NULL: this version has none
} library;

enum { CUDA_HIGHEST_PRIORITY = -100 }; // the driver takes the highest that there is

// Sums run on a stream of their own, beside the work of the GPU's stream.
typedef struct {
	library *api;
	ncclComm_t handle;
	CUstream stream;
	CUevent ready, summed;
} comm;

uintptr_t cuda_open_nccl(const char *path, cuda_nccl *out, char *message, int size) {
	void *handle = open_library(path, message, size);
	if (!handle) return 0;
	library *l = calloc(1, sizeof *l);
	const char *missing = NULL;
#define LOOKUP(name, parameters) \
	if (!(l->name = (ncclResult_t(*) parameters)dlsym(handle, #name))) missing = #name;
	NCCL(LOOKUP)
#undef LOOKUP
	l->ncclGetErrorString = (const char *(*)(ncclResult_t))dlsym(handle, "ncclGetErrorString");
	l->ncclGetLastError = (const char *(*)(ncclComm_t))dlsym(handle, "ncclGetLastError");
	if (!l->ncclGetErrorString) missing = "ncclGetErrorString";
	if (!missing && l->ncclGetVersion(&out->version)) missing = "version";
	if (!missing && out->version < CUDA_OLDEST_NCCL) {
		snprintf(message, size, "it is version %d.%d, and 2.19 is needed", out->version / 10000, out->version / 100 % 100);
	} else if (missing) {
		snprintf(message, size, "it has no %s", missing);
	} else {
		name_file((void *)l->ncclGetVersion, out->path, sizeof out->path);
		return out->library = (uintptr_t)l;
	}
	free(l);
	dlclose(handle);
	return 0;
}

// result returns the result of a call. NCCL's text of the last error says more than that of the code.
static cuda_status result(library *l, ncclResult_t r) {
	if (r == ncclSuccess || r == ncclInProgress) return (cuda_status){0};
	const char *last = l->ncclGetLastError ? l->ncclGetLastError(NULL) : NULL;
	// its codes are not the driver's
	return (cuda_status){CUDA_NCCL_CODE + r, "NCCL", last && *last ? last : l->ncclGetErrorString(r)};
}

// TRY and CALL return from the function with the first error, of the driver or of NCCL.
#define TRY(call) \
	do { \
		cuda_status s_ = (call); \
		if (s_.code) return s_; \
	} while (0)
#define CALL(call) TRY(result(l, call))
#define DRIVE(call) TRY(cuda_result(gpu, call))

cuda_status cuda_nccl_id(uintptr_t library_, void *id) {
	library *l = (library *)library_;
	ncclUniqueId made;
	CALL(l->ncclGetUniqueId(&made));
	memcpy(id, made.internal, sizeof made.internal);
	return (cuda_status){0};
}

cuda_status cuda_nccl_join(uintptr_t gpu, uintptr_t library_, const void *id, int rank, int size, uintptr_t *out) {
	library *l = (library *)library_;
	driver *d = cuda_driver(gpu);
	ncclUniqueId joined;
	memcpy(joined.internal, id, sizeof joined.internal);
	TRY(cuda_bind(gpu));
	comm *c = calloc(1, sizeof *c);
	c->api = l;
	*out = (uintptr_t)c;
	// A sum needs few multiprocessors, and gets them before the kernels of the backward pass that are queued already.
	DRIVE(d->cuStreamCreateWithPriority(&c->stream, CU_STREAM_NON_BLOCKING, CUDA_HIGHEST_PRIORITY));
	DRIVE(d->cuEventCreate(&c->ready, CU_EVENT_DISABLE_TIMING));
	DRIVE(d->cuEventCreate(&c->summed, CU_EVENT_DISABLE_TIMING));
	CALL(l->ncclCommInitRank(&c->handle, size, joined, rank));
	return (cuda_status){0};
}

cuda_status cuda_nccl_sum(uintptr_t gpu, uintptr_t comm_, const cuda_sum *list, int count) {
	comm *c = (comm *)comm_;
	library *l = c->api;
	driver *d = cuda_driver(gpu);
	TRY(cuda_bind(gpu));
	DRIVE(d->cuEventRecord(c->ready, cuda_stream(gpu)));
	DRIVE(d->cuStreamWaitEvent(c->stream, c->ready, 0));
	CALL(l->ncclGroupStart());
	for (int i = 0; i < count; i++) {
		void *x = (void *)list[i].address;
		CALL(l->ncclAllReduce(x, x, list[i].count, list[i].type, ncclSum, c->handle, c->stream));
	}
	CALL(l->ncclGroupEnd());
	return (cuda_status){0};
}

cuda_status cuda_nccl_wait(uintptr_t gpu, uintptr_t comm_) {
	comm *c = (comm *)comm_;
	library *l = c->api;
	driver *d = cuda_driver(gpu);
	ncclResult_t late = ncclSuccess;
	TRY(cuda_bind(gpu));
	DRIVE(d->cuEventRecord(c->summed, c->stream));
	DRIVE(d->cuStreamWaitEvent(cuda_stream(gpu), c->summed, 0));
	CALL(l->ncclCommGetAsyncError(c->handle, &late));
	CALL(late);
	return (cuda_status){0};
}

cuda_status cuda_nccl_leave(uintptr_t gpu, uintptr_t comm_) {
	comm *c = (comm *)comm_;
	library *l = c->api;
	driver *d = cuda_driver(gpu);
	TRY(cuda_bind(gpu));
	DRIVE(d->cuStreamSynchronize(c->stream));
	if (c->handle) CALL(l->ncclCommDestroy(c->handle));
	DRIVE(d->cuEventDestroy_v2(c->ready));
	DRIVE(d->cuEventDestroy_v2(c->summed));
	DRIVE(d->cuStreamDestroy_v2(c->stream));
	free(c);
	return (cuda_status){0};
}
