// The functions that Go calls. To Go, libraries, GPUs, modules, functions and events are numbers: addresses that only C
// dereferences.
//
// CUDA's current context belongs to an operating-system thread, and a goroutine may be on a different one at every
// call. So each function here binds the context to its thread, does its work, and returns the result with its text, all
// in one call. It keeps nothing that Go passes after it returns.
#ifndef RESTYLE_CUDA_SHIM_H
#define RESTYLE_CUDA_SHIM_H

#include <stdint.h>

// cuda_status is the result of a call: 0, or a library's code with its name and text, which are constants of that
// library.
typedef struct {
	int code;
	const char *name;
	const char *text;
} cuda_status;

typedef struct {
	uintptr_t gpu; // for the calls below
	char name[256];
	unsigned char uuid[16];
	int count;  // GPUs of the machine; also set if the ordinal is not one of them
	int driver; // the newest CUDA that the driver supports, as 13000 for 13.0
	int major, minor;
	int multiprocessors;
	int l2;
	int memory_clock, bus; // kHz and bits; 0 if the driver does not tell
	int mode; // compute mode: who may use it
	uint64_t memory;
} cuda_device;

// cuda_open_driver opens libcuda at a path, for cuda_open. It returns 0, and the reason in message, if it cannot. If
// the library lacks a function, version is then the newest CUDA that it supports.
uintptr_t cuda_open_driver(const char *path, int *version, char *message, int size);

// cuda_idle_driver returns a driver with one GPU that does nothing.
uintptr_t cuda_idle_driver(void);

// cuda_describe fills in a GPU's properties without opening it.
cuda_status cuda_describe(uintptr_t driver, int ordinal, cuda_device *device);

cuda_status cuda_open(uintptr_t driver, int ordinal, cuda_device *device);
cuda_status cuda_close(uintptr_t gpu);

cuda_status cuda_memory(uintptr_t gpu, uint64_t *available, uint64_t *total);
cuda_status cuda_alloc(uintptr_t gpu, uint64_t bytes, uint64_t *address);
cuda_status cuda_free(uintptr_t gpu, uint64_t address);

// cuda_guards returns whether the GPU is emulated and detects accesses to memory that belongs to nothing, as
// cuda_belongs tells it.
int cuda_guards(uintptr_t gpu);
void cuda_belongs(uintptr_t gpu, uint64_t address, uint64_t bytes, int to_something);

// A copy to the host returns when it is done; a copy from the host returns when its source has been read; other copies
// and launches return when they are queued. All are done in the order of the calls.
cuda_status cuda_upload(uintptr_t gpu, uint64_t to, const void *from, uint64_t bytes);
cuda_status cuda_download(uintptr_t gpu, void *to, uint64_t from, uint64_t bytes);

// Chunks of pinned memory, CUDA_READ_CHUNK bytes each, for copies to the host: cuda_fetch queues a copy, and
// cuda_fetched waits for it. cuda_read_chunk returns the address of a chunk, or NULL if the system has no pinned
// memory.
enum { CUDA_READ_CHUNK = 2 << 20, CUDA_READ_CHUNKS = 2 };
const void *cuda_read_chunk(uintptr_t gpu, int chunk);
cuda_status cuda_fetch(uintptr_t gpu, int chunk, uint64_t from, uint64_t bytes);
cuda_status cuda_fetched(uintptr_t gpu, int chunk);

// cuda_start_download queues a copy of a few bytes to the host. cuda_finish_download waits only for that copy, not for
// what is queued after it.
enum { CUDA_DOWNLOAD_BYTES = 64 };
cuda_status cuda_start_download(uintptr_t gpu, uint64_t from, uint64_t bytes);
cuda_status cuda_finish_download(uintptr_t gpu, void *to, uint64_t bytes);

cuda_status cuda_copy(uintptr_t gpu, uint64_t to, uint64_t from, uint64_t bytes);
cuda_status cuda_fill(uintptr_t gpu, uint64_t address, uint8_t value, uint64_t bytes);
cuda_status cuda_sync(uintptr_t gpu);

// cuda_tick queues that cuda_ticked returns a number from then on, at first 0. cuda_ticked returns whether it knows,
// which it does not if the system has no pinned memory. It may run beside other calls.
cuda_status cuda_tick(uintptr_t gpu, uint32_t number);
int cuda_ticked(uintptr_t gpu, uint32_t *number);

cuda_status cuda_load(uintptr_t gpu, const void *image, uintptr_t *module);
cuda_status cuda_function(uintptr_t gpu, uintptr_t module, const char *name, uintptr_t *function);
cuda_status cuda_allow_shared(uintptr_t gpu, uintptr_t function, uint32_t bytes);

// cuda_tile_map describes a matrix of 16-bit elements, and the tiles of it that a kernel copies, in CUDA_MAP_BYTES
// bytes. Tiles have 64 or 32 columns, and in shared memory their rows are swizzled by 128 or 64 bytes.
typedef struct {
	uint64_t address, rows, columns, stride; // stride: bytes from one row to the next
	uint32_t tile_rows, tile_columns;
} cuda_tiles;
enum { CUDA_MAP_BYTES = 128 };
cuda_status cuda_tile_map(uintptr_t gpu, const cuda_tiles *tiles, void *map);

enum { CUDA_MAX_ARGS = 64 };

// cuda_launch queues a kernel. Its first parameters are maps, if there are any. Each argument that follows is eight
// bytes; smaller ones are in the low bytes. If early, the kernel
// may start before the previous kernel has ended, if that one allows it, and waits for it itself.
cuda_status cuda_launch(uintptr_t gpu, uintptr_t function, uint32_t gridX, uint32_t gridY, uint32_t gridZ,
	uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, int early, const void *maps, int map_count,
	const uint64_t *args, int count);

// Launches between cuda_begin_capture and cuda_end_capture do not run but become a graph, which runs them whenever it
// is launched. If graph is NULL, they are dropped.
cuda_status cuda_begin_capture(uintptr_t gpu);
cuda_status cuda_end_capture(uintptr_t gpu, uintptr_t *graph);
cuda_status cuda_launch_graph(uintptr_t gpu, uintptr_t graph);
cuda_status cuda_free_graph(uintptr_t gpu, uintptr_t graph);

// cuda_mark queues a point in time. cuda_between waits for two of them, frees them, and returns the time between them.
cuda_status cuda_mark(uintptr_t gpu, uintptr_t *mark);
cuda_status cuda_between(uintptr_t gpu, uintptr_t from, uintptr_t to, float *milliseconds);

typedef struct {
	uintptr_t library;
	uint64_t version; // as 130001 for 13.0.1
	char path[1024];  // the file that the loader opened
} cuda_blas;

// cuda_open_blas opens libcublasLt at a path. It returns 0, and the reason in message, if it cannot.
uintptr_t cuda_open_blas(const char *path, cuda_blas *blas, char *message, int size);

// cuda_blas_start and cuda_blas_stop start and end its use on a GPU.
cuda_status cuda_blas_start(uintptr_t gpu, uintptr_t library, uintptr_t *blas);
cuda_status cuda_blas_stop(uintptr_t gpu, uintptr_t blas);

// cuda_product is a row-major matrix product C = alpha·A·B + bias: C [m, n], A [m, k] or, transposed, [k, m], B [k, n]
// or [n, k]; or a batch of products.
typedef struct {
	uint64_t m, n, k;
	int64_t lda, ldb, ldc;             // elements from one row to the next
	int32_t batch;                     // number of products
	int64_t next_a, next_b, next_c;    // elements from one product to the next
	int trans_a, trans_b, bias;        // 1 or 0
	int type, c_type;                  // CUDA_R_32F, CUDA_R_16BF or CUDA_R_16F: of A and B, and of C
	uint32_t align_a, align_b, align_c; // the power of two, in bytes, that each address is a multiple of, at most 256
	uint64_t workspace;                // bytes that it may use
	float alpha;
} cuda_product;

enum { CUDA_MAX_ALGORITHMS = 8 };

// cuda_plan looks for algorithms for a product; cuBLASLt ranks the best first. If it has none, count is 0 and there is
// no plan.
cuda_status cuda_plan(uintptr_t gpu, uintptr_t blas, const cuda_product *product, uintptr_t *plan, int *count);
void cuda_discard_plan(uintptr_t plan);

enum { CUDA_ALGORITHM_BYTES = 64 };

// cuda_algorithm copies the bytes by which cuBLASLt, in the same version, identifies an algorithm. cuda_use_algorithm
// replaces the plan's first algorithm by such bytes, if it can compute the product with that workspace.
void cuda_algorithm(uintptr_t plan, int algorithm, void *bytes);
cuda_status cuda_use_algorithm(uintptr_t gpu, uintptr_t plan, const void *bytes, uint64_t workspace);

// cuda_multiply queues a planned product with one of its algorithms. add: add to C.
cuda_status cuda_multiply(uintptr_t gpu, uintptr_t plan, int algorithm, uint64_t a, uint64_t b, uint64_t c,
	uint64_t bias, int add, uint64_t workspace, uint64_t bytes);

typedef struct {
	uintptr_t library;
	int version;     // as 22807 for 2.28.7
	char path[1024]; // the file that the loader opened
} cuda_nccl;

// cuda_open_nccl opens libnccl at a path. It returns 0, and the reason in message, if it cannot.
enum { CUDA_OLDEST_NCCL = 21900, CUDA_NCCL_ID_BYTES = 128, CUDA_NCCL_CODE = 10000 };
uintptr_t cuda_open_nccl(const char *path, cuda_nccl *nccl, char *message, int size);

// cuda_nccl_id makes an id, CUDA_NCCL_ID_BYTES bytes, with which processes join. cuda_nccl_join waits for them all.
// Results of NCCL are CUDA_NCCL_CODE more than its own.
cuda_status cuda_nccl_id(uintptr_t library, void *id);
cuda_status cuda_nccl_join(uintptr_t gpu, uintptr_t library, const void *id, int rank, int size, uintptr_t *comm);
cuda_status cuda_nccl_leave(uintptr_t gpu, uintptr_t comm); // after cuda_nccl_finish

// cuda_nccl_queue queues collectives, as one group, which begin after what is queued on the GPU now.
enum { CUDA_SUM, CUDA_SUM_TO, CUDA_SPREAD, CUDA_SEND, CUDA_RECEIVE };
typedef struct {
	uint64_t address, count;
	uint64_t into;        // of CUDA_SUM_TO on rank: where the sum goes; 0: address
	int type, kind, rank; // type: ncclFloat32, ncclFloat64, ncclBfloat16 or ncclInt8; rank: the other or the root
} cuda_collective;
cuda_status cuda_nccl_queue(uintptr_t gpu, uintptr_t comm, const cuda_collective *list, int count);

// What is queued on the GPU after cuda_nccl_wait begins after all collectives queued before. What is queued after
// cuda_nccl_wait_for begins after those that were queued before the last cuda_nccl_mark of the slot, if there was one.
cuda_status cuda_nccl_wait(uintptr_t gpu, uintptr_t comm);
cuda_status cuda_nccl_mark(uintptr_t gpu, uintptr_t comm, int slot);
cuda_status cuda_nccl_wait_for(uintptr_t gpu, uintptr_t comm, int slot);

// cuda_nccl_finish waits until all collectives are done.
cuda_status cuda_nccl_finish(uintptr_t gpu, uintptr_t comm);

// cuda_nccl_abort ends collectives that wait for other processes. Another thread may be in any of the functions above:
// while it is in a call of NCCL, cuda_nccl_abort waits.
cuda_status cuda_nccl_abort(uintptr_t comm);

// cuda_open_nvtx opens NVTX at a path. It returns 0, and the reason in message, if it cannot or if there is no
// profiler.
uintptr_t cuda_open_nvtx(const char *path, char *message, int size);

// cuda_begin_range starts a range on the calling thread, and cuda_end_range ends the range that started last there.
void cuda_begin_range(uintptr_t nvtx, const char *name);
void cuda_end_range(uintptr_t nvtx);

typedef struct {
	uintptr_t compiler;
	int major, minor;
	int archs[64]; // compute capabilities that it compiles for, as 90 for 9.0
	int count;
	char path[1024]; // the file that the loader opened
} cuda_compiler;

// cuda_open_compiler opens libnvrtc at a path. It returns 0, and the reason in message, if it cannot.
int cuda_open_compiler(const char *path, cuda_compiler *compiler, char *message, int size);

// cuda_preload opens a library and leaves it open, so that other libraries find it by name. It returns 0 if it cannot.
int cuda_preload(const char *path);

typedef struct {
	char *image; // free it, and log
	uint64_t bytes;
	char *log;
} cuda_image;

// cuda_compile compiles a program to machine code, or to PTX.
cuda_status cuda_compile(uintptr_t compiler, const char *name, const char *source, int headers,
	const char *const *contents, const char *const *names, int options, const char *const *option, int ptx,
	cuda_image *image);

#endif
