// libnccl: sums and copies over processes with a GPU each.
#include <pthread.h>
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

// Collectives run on a stream of their own, beside the work of the GPU's stream.
typedef struct {
	library *api;
	ncclComm_t handle; // NULL: not joined, or aborted
	pthread_mutex_t calls;
	CUstream stream;
	CUevent ready, done, *marks; // of each slot, NULL before its first mark
	int slots;
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

// result returns the result of a call. NCCL's text of the last error says more than the code's.
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
#define ABORTED ((cuda_status){CUDA_NCCL_CODE, "NCCL", "aborted"})

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
	pthread_mutex_init(&c->calls, NULL);
	*out = (uintptr_t)c;
	// A sum needs few multiprocessors, and gets them before the kernels of the backward pass that are queued already.
	DRIVE(d->cuStreamCreateWithPriority(&c->stream, CU_STREAM_NON_BLOCKING, CUDA_HIGHEST_PRIORITY));
	DRIVE(d->cuEventCreate(&c->ready, CU_EVENT_DISABLE_TIMING));
	DRIVE(d->cuEventCreate(&c->done, CU_EVENT_DISABLE_TIMING));
	CALL(l->ncclCommInitRank(&c->handle, size, joined, rank));
	return (cuda_status){0};
}

static ncclResult_t queue(comm *c, cuda_collective x) {
	library *l = c->api;
	void *at = (void *)x.address, *into = (void *)(x.into ? x.into : x.address);
	switch (x.kind) {
	case CUDA_SUM: return l->ncclAllReduce(at, at, x.count, x.type, ncclSum, c->handle, c->stream);
	case CUDA_SUM_TO: return l->ncclReduce(at, into, x.count, x.type, ncclSum, x.rank, c->handle, c->stream);
	case CUDA_SPREAD: return l->ncclBroadcast(at, at, x.count, x.type, x.rank, c->handle, c->stream);
	case CUDA_SEND: return l->ncclSend(at, x.count, x.type, x.rank, c->handle, c->stream);
	default: return l->ncclRecv(at, x.count, x.type, x.rank, c->handle, c->stream);
	}
}

// enter returns the handle for calls of NCCL until leave, or NULL after an abort. ncclCommAbort frees what the handle
// names, and NCCL's functions are not safe for several threads at once, so it waits until no call runs, and none gets
// the handle later. A call only queues, which takes microseconds. If one blocks, as it may while NCCL connects to a
// rank that is gone, the abort waits as long: it cannot know when such a call has ceased to use the memory, and the
// process is to end anyway. The driver's calls, which block while a stream's queue is full, are outside.
static ncclComm_t enter(comm *c) {
	pthread_mutex_lock(&c->calls);
	return c->handle;
}

static cuda_status leave(comm *c, cuda_status s) {
	pthread_mutex_unlock(&c->calls);
	return s;
}

static cuda_status queue_all(comm *c, const cuda_collective *list, int count) {
	library *l = c->api;
	CALL(l->ncclGroupStart());
	for (int i = 0; i < count; i++) CALL(queue(c, list[i]));
	CALL(l->ncclGroupEnd());
	return (cuda_status){0};
}

cuda_status cuda_nccl_queue(uintptr_t gpu, uintptr_t comm_, const cuda_collective *list, int count) {
	comm *c = (comm *)comm_;
	driver *d = cuda_driver(gpu);
	TRY(cuda_bind(gpu));
	DRIVE(d->cuEventRecord(c->ready, cuda_stream(gpu)));
	DRIVE(d->cuStreamWaitEvent(c->stream, c->ready, 0));
	return leave(c, enter(c) ? queue_all(c, list, count) : ABORTED);
}

// late_error returns an error of what was queued earlier.
static cuda_status late_error(comm *c) {
	library *l = c->api;
	ncclResult_t late = ncclSuccess;
	CALL(l->ncclCommGetAsyncError(c->handle, &late));
	return result(l, late);
}

// wait_for has the GPU's stream wait for an event of the collectives' stream.
static cuda_status wait_for(uintptr_t gpu, comm *c, CUevent event) {
	DRIVE(cuda_driver(gpu)->cuStreamWaitEvent(cuda_stream(gpu), event, 0));
	return leave(c, enter(c) ? late_error(c) : ABORTED);
}

cuda_status cuda_nccl_wait(uintptr_t gpu, uintptr_t comm_) {
	comm *c = (comm *)comm_;
	TRY(cuda_bind(gpu));
	DRIVE(cuda_driver(gpu)->cuEventRecord(c->done, c->stream));
	return wait_for(gpu, c, c->done);
}

cuda_status cuda_nccl_mark(uintptr_t gpu, uintptr_t comm_, int slot) {
	comm *c = (comm *)comm_;
	driver *d = cuda_driver(gpu);
	TRY(cuda_bind(gpu));
	if (slot >= c->slots) {
		c->marks = realloc(c->marks, (slot + 1) * sizeof *c->marks);
		memset(c->marks + c->slots, 0, (slot + 1 - c->slots) * sizeof *c->marks);
		c->slots = slot + 1;
	}
	if (!c->marks[slot]) DRIVE(d->cuEventCreate(&c->marks[slot], CU_EVENT_DISABLE_TIMING));
	DRIVE(d->cuEventRecord(c->marks[slot], c->stream));
	return (cuda_status){0};
}

cuda_status cuda_nccl_wait_for(uintptr_t gpu, uintptr_t comm_, int slot) {
	comm *c = (comm *)comm_;
	if (slot >= c->slots || !c->marks[slot]) return (cuda_status){0};
	TRY(cuda_bind(gpu));
	return wait_for(gpu, c, c->marks[slot]);
}

cuda_status cuda_nccl_finish(uintptr_t gpu, uintptr_t comm_) {
	comm *c = (comm *)comm_;
	TRY(cuda_bind(gpu));
	DRIVE(cuda_driver(gpu)->cuStreamSynchronize(c->stream));
	return (cuda_status){0};
}

cuda_status cuda_nccl_abort(uintptr_t comm_) {
	comm *c = (comm *)comm_;
	const ncclComm_t handle = enter(c);
	c->handle = NULL;
	leave(c, ABORTED);
	return handle ? result(c->api, c->api->ncclCommAbort(handle)) : ABORTED;
}

cuda_status cuda_nccl_leave(uintptr_t gpu, uintptr_t comm_) {
	comm *c = (comm *)comm_;
	library *l = c->api;
	driver *d = cuda_driver(gpu);
	TRY(cuda_bind(gpu));
	if (c->handle) CALL(l->ncclCommDestroy(c->handle));
	pthread_mutex_destroy(&c->calls);
	DRIVE(d->cuEventDestroy_v2(c->ready));
	DRIVE(d->cuEventDestroy_v2(c->done));
	for (int i = 0; i < c->slots; i++) {
		if (c->marks[i]) DRIVE(d->cuEventDestroy_v2(c->marks[i]));
	}
	DRIVE(d->cuStreamDestroy_v2(c->stream));
	free(c->marks);
	free(c);
	return (cuda_status){0};
}
