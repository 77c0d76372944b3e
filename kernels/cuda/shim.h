// What Go calls. Libraries, GPUs, modules, functions and events are numbers to Go: addresses that only this side follows.
//
// CUDA's current context belongs to an operating-system thread, and a goroutine may be on another one at every call. So
// each function here binds the context to the thread that it finds itself on, does its work, and returns what became of it
// with the text, all in one call. Nothing that Go passes is kept after the return.
#ifndef RESTYLE_CUDA_SHIM_H
#define RESTYLE_CUDA_SHIM_H

#include <stdint.h>

// cuda_status is the result of a call: 0, or a library's code with its name and text, which are constants of that library.
typedef struct {
	int code;
	const char *name;
	const char *text;
} cuda_status;

typedef struct {
	uintptr_t gpu; // for the calls below
	char name[256];
	unsigned char uuid[16];
	int count;  // GPUs of the machine, set when the ordinal is not one of them too
	int driver; // the newest CUDA that the driver supports, as 13000 for 13.0
	int major, minor;
	int multiprocessors;
	int l2;
	int memory_clock, bus; // kHz and bits; 0 if the driver does not tell
	int mode; // who may use it
	uint64_t memory;
} cuda_device;

// cuda_open_driver opens libcuda at a path, for cuda_open. 0: it could not, and message says why. Then version is the newest CUDA that
// the library knows, if it lacks a function.
uintptr_t cuda_open_driver(const char *path, int *version, char *message, int size);

// cuda_idle_driver is a driver with one GPU that does nothing.
uintptr_t cuda_idle_driver(void);

// cuda_describe fills in what a GPU is, without taking it into use.
cuda_status cuda_describe(uintptr_t driver, int ordinal, cuda_device *device);

cuda_status cuda_open(uintptr_t driver, int ordinal, cuda_device *device);
cuda_status cuda_close(uintptr_t gpu);

cuda_status cuda_memory(uintptr_t gpu, uint64_t *available, uint64_t *total);
cuda_status cuda_alloc(uintptr_t gpu, uint64_t bytes, uint64_t *address);
cuda_status cuda_free(uintptr_t gpu, uint64_t address);

// cuda_guards says whether the GPU is emulated and sees what touches memory that belongs to nothing, of which cuda_belongs tells it.
int cuda_guards(uintptr_t gpu);
void cuda_belongs(uintptr_t gpu, uint64_t address, uint64_t bytes, int to_something);

// A copy to the host returns when it is done; one from there when what it copies has been read, and the others, and launches, when
// they are queued. All are done in the order of the calls.
cuda_status cuda_upload(uintptr_t gpu, uint64_t to, const void *from, uint64_t bytes);
cuda_status cuda_download(uintptr_t gpu, void *to, uint64_t from, uint64_t bytes);

// Pieces of pinned memory, CUDA_READ_CHUNK bytes each, that copies to the host come through: cuda_fetch queues one, and cuda_fetched waits for
// it. cuda_read_chunk is where a piece is, NULL if the system gives no pinned memory.
enum { CUDA_READ_CHUNK = 2 << 20, CUDA_READ_CHUNKS = 2 };
const void *cuda_read_chunk(uintptr_t gpu, int piece);
cuda_status cuda_fetch(uintptr_t gpu, int piece, uint64_t from, uint64_t bytes);
cuda_status cuda_fetched(uintptr_t gpu, int piece);

cuda_status cuda_copy(uintptr_t gpu, uint64_t to, uint64_t from, uint64_t bytes);
cuda_status cuda_fill(uintptr_t gpu, uint64_t address, uint8_t value, uint64_t bytes);
cuda_status cuda_sync(uintptr_t gpu);

cuda_status cuda_load(uintptr_t gpu, const void *image, uintptr_t *module);
cuda_status cuda_function(uintptr_t gpu, uintptr_t module, const char *name, uintptr_t *function);
cuda_status cuda_allow_shared(uintptr_t gpu, uintptr_t function, uint32_t bytes);

enum { CUDA_MAX_ARGS = 64 };

// cuda_launch queues a kernel. Each argument is in eight bytes, the smaller ones in the lower of them.
cuda_status cuda_launch(uintptr_t gpu, uintptr_t function, uint32_t gridX, uint32_t gridY, uint32_t gridZ,
	uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, const uint64_t *args, int count);

// What is launched between cuda_begin_capture and cuda_end_capture is not done but becomes a graph, which does it whenever it is
// launched, or, if graph is NULL, nothing.
cuda_status cuda_begin_capture(uintptr_t gpu);
cuda_status cuda_end_capture(uintptr_t gpu, uintptr_t *graph);
cuda_status cuda_launch_graph(uintptr_t gpu, uintptr_t graph);
cuda_status cuda_free_graph(uintptr_t gpu, uintptr_t graph);

// cuda_mark queues a point in time, and cuda_between waits for two of them, gives them back, and says how far apart they are.
cuda_status cuda_mark(uintptr_t gpu, uintptr_t *mark);
cuda_status cuda_between(uintptr_t gpu, uintptr_t from, uintptr_t to, float *milliseconds);

typedef struct {
	uintptr_t library;
	uint64_t version; // as 130001 for 13.0.1
	char path[1024];  // the file that the loader took
} cuda_blas;

// cuda_open_blas opens libcublasLt at a path. 0: it could not, and message says why.
uintptr_t cuda_open_blas(const char *path, cuda_blas *blas, char *message, int size);

// cuda_blas_start and cuda_blas_stop begin and end its use on a GPU.
cuda_status cuda_blas_start(uintptr_t gpu, uintptr_t library, uintptr_t *blas);
cuda_status cuda_blas_stop(uintptr_t gpu, uintptr_t blas);

// cuda_product is a matrix product C = A·B + bias, row after row: C [m, n], A [m, k] or, transposed, [k, m], B [k, n] or [n, k]; or a
// batch of them.
typedef struct {
	uint64_t m, n, k;
	int64_t lda, ldb, ldc;             // elements from row to row
	int32_t batch;                     // how many products
	int64_t next_a, next_b, next_c;    // elements from one to the next
	int trans_a, trans_b, bias;        // 1 or 0
	int bf16, c_bf16;                  // A and B are BF16, C is; F32 if not
	uint32_t align_a, align_b, align_c; // the power of two of bytes that each address is a multiple of, 256 at most
	uint64_t workspace;                // bytes that it may have
} cuda_product;

enum { CUDA_MAX_ALGORITHMS = 8 };

// cuda_plan looks for algorithms for a product, best first as cuBLASLt thinks. count is 0, and there is no plan, if it has none.
cuda_status cuda_plan(uintptr_t gpu, uintptr_t blas, const cuda_product *product, uintptr_t *plan, int *count);
void cuda_discard_plan(uintptr_t plan);

enum { CUDA_ALGORITHM_BYTES = 64 };

// cuda_algorithm copies what cuBLASLt, of the same version, knows an algorithm by. cuda_use_algorithm puts such a one in the place of
// the plan's first, if the product can be computed so with that workspace.
void cuda_algorithm(uintptr_t plan, int algorithm, void *bytes);
cuda_status cuda_use_algorithm(uintptr_t gpu, uintptr_t plan, const void *bytes, uint64_t workspace);

// cuda_multiply queues a planned product by one of its algorithms. add: onto what C holds.
cuda_status cuda_multiply(uintptr_t gpu, uintptr_t plan, int algorithm, uint64_t a, uint64_t b, uint64_t c, uint64_t bias, int add,
	uint64_t workspace, uint64_t bytes);

// cuda_open_nvtx opens NVTX at a path. 0: it could not, or no profiler listens, and message says why.
uintptr_t cuda_open_nvtx(const char *path, char *message, int size);

// cuda_begin_range begins a range on the calling thread, and cuda_end_range ends the one that began last there.
void cuda_begin_range(uintptr_t nvtx, const char *name);
void cuda_end_range(uintptr_t nvtx);

typedef struct {
	uintptr_t compiler;
	int major, minor;
	int archs[64]; // compute capabilities that it compiles for, as 90 for 9.0
	int count;
	char path[1024]; // the file that the loader took
} cuda_compiler;

// cuda_open_compiler opens libnvrtc at a path. 0: it could not, and message says why.
int cuda_open_compiler(const char *path, cuda_compiler *compiler, char *message, int size);

// cuda_preload opens a library and leaves it open, so that others that ask for it by its name find it. 0 if it cannot.
int cuda_preload(const char *path);

typedef struct {
	char *image; // free, as log
	uint64_t bytes;
	char *log;
} cuda_image;

// cuda_compile compiles a program to machine code, or to PTX.
cuda_status cuda_compile(uintptr_t compiler, const char *name, const char *source, int headers, const char *const *contents,
	const char *const *names, int options, const char *const *option, int ptx, cuda_image *image);

#endif
