// libcuda: memory, modules and launches.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "driver.h"
#include "library.h"
#include "shim.h"

enum { SLOTS = 8, SLOT_BYTES = CUDA_READ_CHUNK, BUFFERS = SLOTS + CUDA_READ_CHUNKS };

typedef struct {
	driver *api;
	uint64_t serial; // unique among all GPUs, open or closed
	CUdevice device;
	CUcontext context;
	CUstream stream; // the stream on which all work is queued

	// Uploads go through these slots of pinned memory in turn: a slot is free again when its event has occurred.
	pthread_mutex_t lock;
	char *slots; // NULL: the system has no pinned memory
	CUevent sent[BUFFERS];
	int slot; // the next
	// The chunks for copies to the host come after the slots.

	// for cuda_start_download: pinned memory after the chunks, or unpinned if there is none
	char *downloaded, unpinned[CUDA_DOWNLOAD_BYTES];
	CUevent download_done;

	_Atomic uint32_t *ticked; // the number of the last tick, in pinned memory after that; NULL if there is none
} gpu;

uintptr_t cuda_open_driver(const char *path, int *version, char *message, int size) {
	void *library = open_library(path, message, size);
	if (!library) return 0;
	driver *d = calloc(1, sizeof *d);
	const char *missing = NULL;
#define LOOKUP(name, parameters) \
	if (!(d->name = (CUresult(*) parameters)dlsym(library, #name)) && !missing) missing = #name;
	DRIVER(LOOKUP)
#undef LOOKUP
	d->emulated_belongs = (void (*)(CUdeviceptr, size_t, int))dlsym(library, "emulated_belongs");
	if (!missing) return (uintptr_t)d;
	if (d->cuDriverGetVersion) d->cuDriverGetVersion(version); // may fail: then there is no version
	snprintf(message, size, "it has no %s", missing);
	free(d);
	return 0;
}

static cuda_status status(driver *d, CUresult r) {
	cuda_status s = {r, "unknown error", "unknown error"};
	if (r != CUDA_SUCCESS) {
		d->cuGetErrorName(r, &s.name);
		d->cuGetErrorString(r, &s.text);
	}
	return s;
}

// bind binds a GPU's context to the thread. Comparing serials saves most calls into the driver. It does not compare
// contexts: a context opened after another was closed may have the same address.
static CUresult bind(gpu *g) {
	static __thread uint64_t bound;
	if (bound == g->serial) {
		return CUDA_SUCCESS;
	}
	CUresult r = g->api->cuCtxSetCurrent(g->context);
	bound = r == CUDA_SUCCESS ? g->serial : 0;
	return r;
}

// describe fills in the properties of a GPU, as far as they are available.
static CUresult describe(driver *d, int ordinal, CUdevice *device, cuda_device *out) {
	struct {
		CUdevice_attribute attribute;
		int *value;
	} attributes[] = {
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->multiprocessors},
		{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &out->l2},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &out->mode},
	};
	size_t memory = 0;
	CUuuid uuid = {{0}};
	CUresult r;
	if ((r = d->cuDriverGetVersion(&out->driver))) return r;
	if ((r = d->cuInit(0))) return r;
	if ((r = d->cuDeviceGetCount(&out->count))) return r;
	if (out->count == 0) return CUDA_ERROR_NO_DEVICE;
	if ((r = d->cuDeviceGet(device, ordinal))) return r;
	if ((r = d->cuDeviceGetName(out->name, sizeof out->name, *device))) return r;
	if ((r = d->cuDeviceGetUuid_v2(&uuid, *device))) return r;
	memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
	if ((r = d->cuDeviceTotalMem_v2(&memory, *device))) return r;
	out->memory = memory;
	for (unsigned i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
		if ((r = d->cuDeviceGetAttribute(attributes[i].value, attributes[i].attribute, *device))) return r;
	}
	// A driver that no longer knows these attributes returns that the value is invalid.
	r = d->cuDeviceGetAttribute(&out->memory_clock, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, *device);
	if (r == CUDA_SUCCESS) r = d->cuDeviceGetAttribute(&out->bus, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, *device);
	return r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
}

cuda_status cuda_describe(uintptr_t driver_, int ordinal, cuda_device *out) {
	CUdevice device = 0;
	return status((driver *)driver_, describe((driver *)driver_, ordinal, &device, out));
}

// start opens a GPU and fills in its properties.
static CUresult start(gpu *g, int ordinal, cuda_device *out) {
	static _Atomic uint64_t serial;
	driver *d = g->api;
	CUresult r = describe(d, ordinal, &g->device, out);
	if (r) return r;
	// The primary context is the one that other CUDA libraries in this process use too.
	if ((r = d->cuDevicePrimaryCtxRetain(&g->context, g->device))) return r;
	g->serial = atomic_fetch_add(&serial, 1) + 1;
	if ((r = bind(g)) == CUDA_SUCCESS) r = d->cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING);
	if (r == CUDA_SUCCESS) {
		r = d->cuMemHostAlloc((void **)&g->slots, BUFFERS * SLOT_BYTES + CUDA_DOWNLOAD_BYTES + sizeof *g->ticked,
			CU_MEMHOSTALLOC_DEVICEMAP);
		if (r == CUDA_ERROR_OUT_OF_MEMORY) g->slots = NULL, r = CUDA_SUCCESS; // a system without pinned memory
	}
	for (int i = 0; i < BUFFERS && r == CUDA_SUCCESS; i++) {
		r = d->cuEventCreate(&g->sent[i], CU_EVENT_DISABLE_TIMING);
		if (r == CUDA_SUCCESS) r = d->cuEventRecord(g->sent[i], g->stream);
	}
	if (g->slots) {
		g->ticked = (_Atomic uint32_t *)(g->slots + BUFFERS * SLOT_BYTES + CUDA_DOWNLOAD_BYTES);
		atomic_store(g->ticked, 0);
	}
	g->downloaded = g->slots ? g->slots + BUFFERS * SLOT_BYTES : g->unpinned;
	if (r == CUDA_SUCCESS) r = d->cuEventCreate(&g->download_done, CU_EVENT_DISABLE_TIMING);
	return r;
}

// give_back frees all that start took, whatever fails. It returns the first failure.
static CUresult give_back(gpu *g) {
	driver *d = g->api;
	CUresult first = CUDA_SUCCESS;
#define AND(call) \
	do { \
		const CUresult r_ = (call); \
		if (first == CUDA_SUCCESS) first = r_; \
	} while (0)
	if (g->serial) {
		AND(bind(g));
		if (g->stream) AND(d->cuStreamDestroy_v2(g->stream));
		for (int i = 0; i < BUFFERS; i++) {
			if (g->sent[i]) AND(d->cuEventDestroy_v2(g->sent[i]));
		}
		if (g->download_done) AND(d->cuEventDestroy_v2(g->download_done));
		if (g->slots) AND(d->cuMemFreeHost(g->slots));
		AND(d->cuDevicePrimaryCtxRelease_v2(g->device));
	}
#undef AND
	pthread_mutex_destroy(&g->lock);
	free(g);
	return first;
}

cuda_status cuda_open(uintptr_t driver_, int ordinal, cuda_device *out) {
	gpu *g = calloc(1, sizeof *g);
	driver *d = g->api = (driver *)driver_;
	pthread_mutex_init(&g->lock, NULL);
	CUresult r = start(g, ordinal, out);
	if (r == CUDA_SUCCESS) {
		out->gpu = (uintptr_t)g;
	} else {
		give_back(g);
	}
	return status(d, r);
}

// TRY returns from the function with the first result that is an error.
#define TRY(call) \
	do { \
		CUresult r_ = (call); \
		if (r_ != CUDA_SUCCESS) return status(g->api, r_); \
	} while (0)

#define OK ((cuda_status){0})

cuda_status cuda_bind(uintptr_t gpu_) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	return OK;
}

driver *cuda_driver(uintptr_t gpu_) { return ((gpu *)gpu_)->api; }

cuda_status cuda_result(uintptr_t gpu_, CUresult r) { return status(((gpu *)gpu_)->api, r); }

CUstream cuda_stream(uintptr_t gpu_) { return ((gpu *)gpu_)->stream; }

cuda_status cuda_close(uintptr_t gpu_) {
	driver *d = ((gpu *)gpu_)->api;
	return status(d, give_back((gpu *)gpu_));
}

cuda_status cuda_memory(uintptr_t gpu_, uint64_t *available, uint64_t *total) {
	gpu *g = (gpu *)gpu_;
	size_t a, t;
	TRY(bind(g));
	TRY(g->api->cuMemGetInfo_v2(&a, &t));
	*available = a;
	*total = t;
	return OK;
}

cuda_status cuda_alloc(uintptr_t gpu_, uint64_t bytes, uint64_t *address) {
	gpu *g = (gpu *)gpu_;
	CUdeviceptr p = 0;
	TRY(bind(g));
	TRY(g->api->cuMemAlloc_v2(&p, bytes));
	*address = p;
	return OK;
}

cuda_status cuda_free(uintptr_t gpu_, uint64_t address) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemFree_v2(address));
	return OK;
}

int cuda_guards(uintptr_t gpu_) { return ((gpu *)gpu_)->api->emulated_belongs != NULL; }

void cuda_belongs(uintptr_t gpu_, uint64_t address, uint64_t bytes, int to_something) {
	((gpu *)gpu_)->api->emulated_belongs(address, bytes, to_something);
}

// send queues a copy of at most the size of a slot.
static CUresult send(gpu *g, uint64_t to, const void *from, uint64_t bytes) {
	driver *d = g->api;
	CUevent sent = g->sent[g->slot];
	char *slot = g->slots + (size_t)g->slot * SLOT_BYTES;
	CUresult r;
	if ((r = d->cuEventSynchronize(sent))) return r;
	memcpy(slot, from, bytes);
	if ((r = d->cuMemcpyHtoDAsync_v2(to, slot, bytes, g->stream))) return r;
	g->slot = (g->slot + 1) % SLOTS;
	return d->cuEventRecord(sent, g->stream);
}

cuda_status cuda_upload(uintptr_t gpu_, uint64_t to, const void *from, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	if (!g->slots) {
		TRY(g->api->cuMemcpyHtoDAsync_v2(to, from, bytes, g->stream));
		TRY(g->api->cuStreamSynchronize(g->stream));
		return OK;
	}
	CUresult r = CUDA_SUCCESS;
	pthread_mutex_lock(&g->lock);
	for (uint64_t at = 0; at < bytes && r == CUDA_SUCCESS; at += SLOT_BYTES) {
		const uint64_t n = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
		r = send(g, to + at, (const char *)from + at, n);
	}
	pthread_mutex_unlock(&g->lock);
	return status(g->api, r);
}

cuda_status cuda_download(uintptr_t gpu_, void *to, uint64_t from, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemcpyDtoHAsync_v2(to, from, bytes, g->stream));
	TRY(g->api->cuStreamSynchronize(g->stream));
	return OK;
}

static char *buffer(gpu *g, int chunk) { return g->slots + (size_t)(SLOTS + chunk) * SLOT_BYTES; }

const void *cuda_read_chunk(uintptr_t gpu_, int chunk) {
	gpu *g = (gpu *)gpu_;
	return g->slots ? buffer(g, chunk) : NULL;
}

cuda_status cuda_fetch(uintptr_t gpu_, int chunk, uint64_t from, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemcpyDtoHAsync_v2(buffer(g, chunk), from, bytes, g->stream));
	TRY(g->api->cuEventRecord(g->sent[SLOTS + chunk], g->stream));
	return OK;
}

cuda_status cuda_fetched(uintptr_t gpu_, int chunk) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuEventSynchronize(g->sent[SLOTS + chunk]));
	return OK;
}

cuda_status cuda_start_download(uintptr_t gpu_, uint64_t from, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemcpyDtoHAsync_v2(g->downloaded, from, bytes, g->stream));
	TRY(g->api->cuEventRecord(g->download_done, g->stream));
	return OK;
}

cuda_status cuda_finish_download(uintptr_t gpu_, void *to, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuEventSynchronize(g->download_done));
	memcpy(to, g->downloaded, bytes);
	return OK;
}

cuda_status cuda_copy(uintptr_t gpu_, uint64_t to, uint64_t from, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemcpyDtoDAsync_v2(to, from, bytes, g->stream));
	return OK;
}

cuda_status cuda_fill(uintptr_t gpu_, uint64_t address, uint8_t value, uint64_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuMemsetD8Async(address, value, bytes, g->stream));
	return OK;
}

cuda_status cuda_tick(uintptr_t gpu_, uint32_t number) {
	gpu *g = (gpu *)gpu_;
	if (!g->ticked) return OK;
	TRY(bind(g));
	TRY(g->api->cuMemsetD32Async((CUdeviceptr)(uintptr_t)g->ticked, number, 1, g->stream)); // the GPU has its address too
	return OK;
}

int cuda_ticked(uintptr_t gpu_, uint32_t *number) {
	gpu *g = (gpu *)gpu_;
	if (g->ticked) *number = atomic_load(g->ticked);
	return g->ticked != NULL;
}

cuda_status cuda_sync(uintptr_t gpu_) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuStreamSynchronize(g->stream));
	return OK;
}

cuda_status cuda_load(uintptr_t gpu_, const void *image, uintptr_t *module) {
	gpu *g = (gpu *)gpu_;
	CUmodule m = NULL;
	TRY(bind(g));
	TRY(g->api->cuModuleLoadData(&m, image));
	*module = (uintptr_t)m;
	return OK;
}

cuda_status cuda_function(uintptr_t gpu_, uintptr_t module, const char *name, uintptr_t *function) {
	gpu *g = (gpu *)gpu_;
	CUfunction f = NULL;
	TRY(bind(g));
	TRY(g->api->cuModuleGetFunction(&f, (CUmodule)module, name));
	*function = (uintptr_t)f;
	return OK;
}

cuda_status cuda_allow_shared(uintptr_t gpu_, uintptr_t function, uint32_t bytes) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuFuncSetAttribute((CUfunction)function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes));
	return OK;
}

cuda_status cuda_tile_map(uintptr_t gpu_, const cuda_tiles *t, void *map) {
	gpu *g = (gpu *)gpu_;
	const cuuint64_t dims[] = {t->columns, t->rows}, strides[] = {t->stride};
	const cuuint32_t box[] = {t->tile_columns, t->tile_rows}, steps[] = {1, 1};
	CUtensorMap made;
	TRY(bind(g));
	TRY(g->api->cuTensorMapEncodeTiled(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)t->address, dims, strides, box,
		steps, CU_TENSOR_MAP_INTERLEAVE_NONE, t->tile_columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
		CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
	memcpy(map, &made, sizeof made);
	return OK;
}

cuda_status cuda_launch(uintptr_t gpu_, uintptr_t function, uint32_t gridX, uint32_t gridY, uint32_t gridZ,
	uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, int early, const void *maps, int map_count,
	const uint64_t *args, int count) {
	gpu *g = (gpu *)gpu_;
	void *parameters[CUDA_MAX_ARGS]; // for each, the driver reads as many bytes as the kernel's parameter has
	for (int i = 0; i < map_count; i++) parameters[i] = (char *)maps + i * CUDA_MAP_BYTES;
	for (int i = 0; i < count; i++) parameters[map_count + i] = (void *)&args[i];
	TRY(bind(g));
	if (early) {
		CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
			.value.programmaticStreamSerializationAllowed = 1};
		CUlaunchConfig config = {gridX, gridY, gridZ, blockX, blockY, blockZ, shared, g->stream, &attribute, 1};
		TRY(g->api->cuLaunchKernelEx(&config, (CUfunction)function, parameters, NULL));
		return OK;
	}
	TRY(g->api->cuLaunchKernel((CUfunction)function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, g->stream,
		parameters, NULL));
	return OK;
}

cuda_status cuda_begin_capture(uintptr_t gpu_) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	// Of the other modes, one requires the same thread at the end, and one that no thread of the process allocates
	// meanwhile.
	TRY(g->api->cuStreamBeginCapture_v2(g->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	return OK;
}

cuda_status cuda_end_capture(uintptr_t gpu_, uintptr_t *graph) {
	gpu *g = (gpu *)gpu_;
	CUgraph captured = NULL;
	CUgraphExec made = NULL;
	TRY(bind(g));
	TRY(g->api->cuStreamEndCapture(g->stream, &captured));
	const CUresult r = graph ? g->api->cuGraphInstantiateWithFlags(&made, captured, 0) : CUDA_SUCCESS;
	const CUresult destroyed = g->api->cuGraphDestroy(captured);
	if (graph) *graph = (uintptr_t)made;
	return status(g->api, r != CUDA_SUCCESS ? r : destroyed);
}

cuda_status cuda_launch_graph(uintptr_t gpu_, uintptr_t graph) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuGraphLaunch((CUgraphExec)graph, g->stream));
	return OK;
}

cuda_status cuda_free_graph(uintptr_t gpu_, uintptr_t graph) {
	gpu *g = (gpu *)gpu_;
	TRY(bind(g));
	TRY(g->api->cuGraphExecDestroy((CUgraphExec)graph));
	return OK;
}

cuda_status cuda_mark(uintptr_t gpu_, uintptr_t *mark) {
	gpu *g = (gpu *)gpu_;
	CUevent e = NULL;
	TRY(bind(g));
	TRY(g->api->cuEventCreate(&e, CU_EVENT_DEFAULT));
	*mark = (uintptr_t)e;
	TRY(g->api->cuEventRecord(e, g->stream));
	return OK;
}

cuda_status cuda_between(uintptr_t gpu_, uintptr_t from, uintptr_t to, float *milliseconds) {
	gpu *g = (gpu *)gpu_;
	CUevent a = (CUevent)from, b = (CUevent)to;
	TRY(bind(g));
	CUresult r = g->api->cuEventSynchronize(b);
	if (r == CUDA_SUCCESS) r = g->api->cuEventElapsedTime(milliseconds, a, b);
	g->api->cuEventDestroy_v2(a);
	g->api->cuEventDestroy_v2(b);
	return status(g->api, r);
}
