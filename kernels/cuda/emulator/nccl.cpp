// The emulated GPU's NCCL: ranks are processes of one machine, which add up in shared memory, in the order of the
// ranks, whatever NCCL's own order is. A rank that waits for one that is gone waits for ever, as with NCCL.
#include "emulator.h"

extern "C" {
#include "../nccl_api.h"
}
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

enum { NCCL_TOLD = 3, NCCL_INVALID = 4, MAX_RANKS = 64 };
static const size_t PART = 1 << 20; // bytes that are added up at a time
#define NCCL_CALLED \
	if (told(__func__)) return NCCL_TOLD

struct shared {
	std::atomic<int> arrived, generation;
	size_t counts[MAX_RANKS]; // what each rank sums now
	int types[MAX_RANKS];
	char parts[MAX_RANKS][PART];
};
struct ncclComm {
	shared *memory;
	int rank, size;
};

static std::string nccl_why;

EXPORT ncclResult_t ncclGetVersion(int *version) {
	const char *text = getenv("STANDIN_NCCL");
	return *version = text && *text ? atoi(text) : 22807, ncclSuccess;
}
EXPORT const char *ncclGetErrorString(ncclResult_t r) {
	return r == NCCL_TOLD ? lasting(told_why) : lasting(nccl_why);
}
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	NCCL_CALLED;
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	memset(id, 0, sizeof *id);
	snprintf(id->internal, sizeof id->internal, "/dev/shm/restyle-nccl-%d-%lld%09ld", (int)getpid(), (long long)now.tv_sec,
		now.tv_nsec);
	const int file = open(id->internal, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, sizeof(shared))) return nccl_why = "no shared memory", NCCL_INVALID;
	return close(file), ncclSuccess;
}

// meet returns when all ranks have called it.
static void meet(ncclComm *c) {
	shared *m = c->memory;
	const int generation = m->generation;
	if (++m->arrived == c->size) {
		m->arrived = 0, ++m->generation;
		return;
	}
	for (int i = 0; m->generation == generation; i++) i < 1000 ? (void)0 : (void)usleep(50);
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
	NCCL_CALLED;
	if (size > MAX_RANKS || rank < 0 || rank >= size) return nccl_why = "wrong rank", NCCL_INVALID;
	const int file = open(id.internal, O_RDWR | O_CLOEXEC);
	void *m = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0) close(file);
	if (m == MAP_FAILED) return nccl_why = "no shared memory", NCCL_INVALID;
	*comm = new ncclComm{(shared *)m, rank, size};
	meet(*comm);
	if (rank == 0) unlink(id.internal);
	return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t c) {
	munmap(c->memory, sizeof(shared));
	delete c;
	NCCL_CALLED;
	return ncclSuccess;
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *result) {
	NCCL_CALLED;
	return *result = ncclSuccess, ncclSuccess;
}
EXPORT ncclResult_t ncclGroupStart() {
	NCCL_CALLED;
	return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupEnd() {
	NCCL_CALLED;
	return ncclSuccess;
}

static float from_bf16(uint16_t x) {
	const uint32_t bits = (uint32_t)x << 16;
	float f;
	return memcpy(&f, &bits, 4), f;
}
static uint16_t to_bf16(float f) {
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if (f != f) return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// add sets to[i] to the sum of the ranks' parts.
template <typename T> static void add(const ncclComm *c, T *to, size_t n) {
	for (size_t i = 0; i < n; i++) {
		T sum = ((const T *)c->memory->parts[0])[i];
		for (int r = 1; r < c->size; r++) sum += ((const T *)c->memory->parts[r])[i];
		to[i] = sum;
	}
}
static void add(const ncclComm *c, uint16_t *to, size_t n) {
	for (size_t i = 0; i < n; i++) {
		float sum = 0;
		for (int r = 0; r < c->size; r++) sum += from_bf16(((const uint16_t *)c->memory->parts[r])[i]);
		to[i] = to_bf16(sum);
	}
}

static CUresult sum(ncclComm *c, char *x, size_t count, int type) {
	shared *m = c->memory;
	const size_t size = type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 2, bytes = count * size;
	m->counts[c->rank] = count, m->types[c->rank] = type;
	meet(c);
	for (int r = 0; r < c->size; r++) {
		if (m->counts[r] == count && m->types[r] == type) continue;
		why = "the ranks sum different things", why_of = LAUNCH_FAILED;
		return LAUNCH_FAILED;
	}
	for (size_t at = 0; at < bytes; at += PART) {
		const size_t n = std::min(PART, bytes - at);
		memcpy(m->parts[c->rank], x + at, n);
		meet(c);
		if (type == ncclFloat64) add(c, (double *)(x + at), n / 8);
		else if (type == ncclFloat32) add(c, (float *)(x + at), n / 4);
		else add(c, (uint16_t *)(x + at), n / 2);
		meet(c);
	}
	meet(c); // before another sum sets counts
	return CUDA_SUCCESS;
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
	ncclComm_t c, cudaStream_t) {
	NCCL_CALLED;
	if (from != to || op != ncclSum || type < ncclFloat32 || type > ncclBfloat16)
		return nccl_why = "not a sum that is used", NCCL_INVALID;
	LOCKED;
	const size_t bytes = count * (type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 2);
	if (!inside((uintptr_t)to, bytes)) return nccl_why = "memory that belongs to nothing", NCCL_INVALID;
	if (idle()) return ncclSuccess;
	const CUresult r = queue([=] {
		const CUresult summed = sum(c, (char *)to, count, type);
		return wrote((uintptr_t)to, bytes), summed;
	});
	return r ? (nccl_why = why, NCCL_INVALID) : ncclSuccess;
}
