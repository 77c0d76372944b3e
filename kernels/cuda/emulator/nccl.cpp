// The emulated GPU's NCCL: ranks are processes of one machine, which add up in shared memory, in the order of the
// ranks, whatever NCCL's own order is. A rank that waits for one that is gone waits until it is aborted, as with NCCL.
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
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

enum { NCCL_TOLD = 3, NCCL_INVALID = 4, MAX_RANKS = 16 };
static const size_t PART = 1 << 18; // bytes that are added up, or sent, at a time
#define NCCL_CALLED \
	if (told(__func__)) return NCCL_TOLD

// What a rank does, in a group with others.
enum work_kind { ALL_REDUCE, REDUCE, BROADCAST, SEND, RECEIVE };
struct work {
	work_kind kind;
	char *at;
	size_t count;
	int type, peer;   // peer: the root, or the other rank
	const char *from; // of REDUCE; otherwise at
	size_t size() const { return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1; }
	size_t bytes() const { return count * size(); }
	bool fits(const work &x) const {
		return kind == x.kind && count == x.count && type == x.type && (kind == ALL_REDUCE || peer == x.peer);
	}
};

// What one rank sends to another: a part at a time.
enum { EMPTY, FULL, REFUSED };
struct mailbox {
	std::atomic<int> state;
	work sent;
	char part[PART];
};
struct shared {
	std::atomic<int> arrived, generation;
	work works[MAX_RANKS]; // what each rank does now
	char parts[MAX_RANKS][PART];
	mailbox boxes[MAX_RANKS][MAX_RANKS]; // from, to
};
struct ncclComm {
	shared *memory;
	int rank, size, groups;
	std::atomic<bool> aborted;
	int beside;         // milliseconds until a collective is done; -1: no time
	bool over;          // there are no more
	std::thread thread; // that does them
};

// A group of collectives that is done beside other work, and when at the latest.
typedef std::chrono::steady_clock timer;
struct waiting_group {
	timer::time_point due;
	std::function<CUresult()> work;
};
static struct {
	std::deque<waiting_group> groups;
	long queued, done, wanted; // numbers of groups; wanted: that somebody waits for
	std::condition_variable_any changed;
} beside;
static thread_local bool lockless; // whether this thread works without the driver's lock

// held holds the driver's lock, if the thread does not already.
struct held {
	held() {
		if (lockless) lock.lock();
	}
	~held() {
		if (lockless) lock.unlock();
	}
};

long beside_queued() { return beside.queued; }

CUresult wait_beside(long until) {
	beside.wanted = std::max(beside.wanted, until);
	beside.changed.notify_all();
	while (beside.done < until) beside.changed.wait(lock);
	return failed;
}

// work_beside does groups as late as it may.
static void work_beside(ncclComm *c) {
	lockless = true;
	std::unique_lock<std::mutex> hold(lock);
	while (!c->over || !beside.groups.empty()) {
		if (beside.groups.empty()) {
			beside.changed.wait(hold);
		} else if (beside.wanted <= beside.done && timer::now() < beside.groups.front().due) {
			beside.changed.wait_until(hold, beside.groups.front().due);
		} else {
			const auto work = std::move(beside.groups.front().work);
			beside.groups.pop_front();
			hold.unlock();
			const CUresult r = work();
			hold.lock();
			if (!failed) failed = r;
			beside.done++;
			beside.changed.notify_all();
		}
	}
}

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

// wait_until returns whether done does before the rank is aborted.
template <typename F> static bool wait_until(const ncclComm *c, F done) {
	for (int i = 0; !done(); i++) {
		if (c->aborted) return false;
		if (i > 1000) usleep(50);
	}
	return true;
}

// meet returns when all ranks have called it, true unless this one is aborted.
static bool meet(ncclComm *c) {
	shared *m = c->memory;
	const int generation = m->generation;
	if (++m->arrived == c->size) {
		m->arrived = 0, ++m->generation;
		return true;
	}
	return wait_until(c, [=] { return m->generation != generation; });
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
	NCCL_CALLED;
	if (size > MAX_RANKS || rank < 0 || rank >= size) return nccl_why = "wrong rank", NCCL_INVALID;
	const int file = open(id.internal, O_RDWR | O_CLOEXEC);
	void *m = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0) close(file);
	if (m == MAP_FAILED) return nccl_why = "no shared memory", NCCL_INVALID;
	const char *late = getenv("STANDIN_BESIDE");
	*comm = new ncclComm{(shared *)m, rank, size, 0, {false}, late && *late ? atoi(late) : -1};
	meet(*comm);
	if (rank == 0) unlink(id.internal);
	if ((*comm)->beside >= 0) (*comm)->thread = std::thread(work_beside, *comm);
	return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t c) {
	if (c->thread.joinable()) {
		lock.lock();
		c->over = true;
		lock.unlock();
		beside.changed.notify_all();
		c->thread.join();
	}
	munmap(c->memory, sizeof(shared));
	delete c;
	NCCL_CALLED;
	return ncclSuccess;
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *result) {
	NCCL_CALLED;
	return *result = ncclSuccess, ncclSuccess;
}
// It counts as no call: the driver's lock belongs to whoever waits for other ranks. The emulated GPU still uses c.
EXPORT ncclResult_t ncclCommAbort(ncclComm_t c) { return c->aborted = true, ncclSuccess; }

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

static CUresult wrong(const char *what) {
	const held h;
	return why = what, why_of = LAUNCH_FAILED;
}
static void written(char *at, size_t bytes) {
	const held h;
	wrote((uintptr_t)at, bytes);
}
static CUresult aborted() { return wrong("it was aborted"); }

// together does what all ranks do at the same time.
static CUresult together(ncclComm *c, const work &x) {
	shared *m = c->memory;
	m->works[c->rank] = x;
	if (!meet(c)) return aborted();
	for (int r = 0; r < c->size; r++)
		if (!x.fits(m->works[r])) return wrong("the ranks do different things");
	const bool gives = x.kind != BROADCAST || x.peer == c->rank, takes = x.kind != REDUCE || x.peer == c->rank;
	for (size_t at = 0; at < x.bytes(); at += PART) {
		const size_t n = std::min(PART, x.bytes() - at);
		char *to = x.at + at;
		if (gives) memcpy(m->parts[c->rank], x.from + at, n);
		if (!meet(c)) return aborted();
		if (x.kind == BROADCAST) memcpy(to, m->parts[x.peer], n);
		else if (takes && x.type == ncclFloat64) add(c, (double *)to, n / 8);
		else if (takes && x.type == ncclFloat32) add(c, (float *)to, n / 4);
		else if (takes) add(c, (uint16_t *)to, n / 2);
		if (!meet(c)) return aborted();
	}
	if (!meet(c)) return aborted(); // before another work sets works
	if (takes) written(x.at, x.bytes());
	return CUDA_SUCCESS;
}

// A transfer is a work of sending or receiving, some of which is done.
struct transfer {
	work x;
	size_t done;
	bool over;
};

// move does a part of a transfer if the other rank is ready for it.
static CUresult move(ncclComm *c, transfer &t) {
	const bool sends = t.x.kind == SEND;
	mailbox &box = sends ? c->memory->boxes[c->rank][t.x.peer] : c->memory->boxes[t.x.peer][c->rank];
	const int state = box.state;
	if (state == REFUSED) return wrong("the ranks exchange different things");
	if (state != (sends ? EMPTY : FULL)) return CUDA_SUCCESS;
	const size_t n = std::min(PART, t.x.bytes() - t.done);
	if (sends && t.done == t.x.bytes()) {
		t.over = true; // the last part has been received
		return CUDA_SUCCESS;
	}
	if (sends) {
		box.sent = t.x;
		memcpy(box.part, t.x.at + t.done, n);
	} else {
		if (box.sent.count != t.x.count || box.sent.type != t.x.type) {
			box.state = REFUSED;
			return wrong("the ranks exchange different things");
		}
		memcpy(t.x.at + t.done, box.part, n);
	}
	t.done += n;
	if (!sends && t.done == t.x.bytes()) t.over = true, written(t.x.at, t.x.bytes());
	box.state = sends ? FULL : EMPTY;
	return CUDA_SUCCESS;
}

// exchange does all transfers at the same time, those with the same rank in their order.
static CUresult exchange(ncclComm *c, std::vector<transfer> list) {
	CUresult r = CUDA_SUCCESS;
	const bool ended = wait_until(c, [&] {
		bool busy[2][MAX_RANKS] = {}, all = true;
		for (transfer &t : list) {
			if (t.over || r) continue;
			all = false;
			if (std::exchange(busy[t.x.kind == SEND][t.x.peer], true)) continue;
			r = move(c, t);
		}
		return all || r;
	});
	return ended ? r : aborted();
}

// run does the works of a group.
static CUresult run(ncclComm *c, const std::vector<work> &group) {
	const char *stuck = getenv("STANDIN_STUCK");
	if (++c->groups == (stuck ? atoi(stuck) : 0)) return wait_until(c, [] { return false; }), aborted();
	std::vector<transfer> transfers;
	for (const work &x : group) {
		if (x.kind == SEND || x.kind == RECEIVE) transfers.push_back({x, 0, false});
		else if (const CUresult r = together(c, x)) return r;
	}
	return exchange(c, transfers);
}

static thread_local std::vector<work> group; // of the calls since ncclGroupStart
static thread_local ncclComm *group_comm;

static ncclResult_t enqueue(ncclComm *c, const work &x) {
	const bool sums = x.kind == ALL_REDUCE || x.kind == REDUCE;
	const bool typed = sums ? x.type >= ncclFloat32 && x.type <= ncclBfloat16 : x.type == ncclInt8;
	if (!typed || (x.from != x.at && x.kind != REDUCE))
		return nccl_why = "not a collective that is used", NCCL_INVALID;
	if (x.peer < 0 || x.peer >= c->size || ((x.kind == SEND || x.kind == RECEIVE) && x.peer == c->rank))
		return nccl_why = "wrong rank", NCCL_INVALID;
	LOCKED;
	if (!inside((uintptr_t)x.at, x.bytes()) || !inside((uintptr_t)x.from, x.bytes()))
		return nccl_why = "memory that belongs to nothing", NCCL_INVALID;
	return group.push_back(x), group_comm = c, ncclSuccess;
}

EXPORT ncclResult_t ncclGroupStart() {
	group.clear();
	NCCL_CALLED;
	return ncclSuccess;
}
EXPORT ncclResult_t ncclGroupEnd() {
	NCCL_CALLED;
	if (const char *file = getenv("STANDIN_SLOW"); file && *file) {
		while (access(file, F_OK)) usleep(50);
		if (group_comm->aborted && told("memory_that_ncclCommAbort_has_freed")) return NCCL_TOLD;
	}
	LOCKED;
	if (idle() || group.empty()) return ncclSuccess;
	const auto work = [c = group_comm, works = group] { return run(c, works); };
	if (group_comm->beside >= 0) {
		beside.groups.push_back({timer::now() + std::chrono::milliseconds(group_comm->beside), work});
		beside.queued++;
		beside.changed.notify_all();
		return ncclSuccess;
	}
	const CUresult r = queue(work);
	return r ? (nccl_why = why, NCCL_INVALID) : ncclSuccess;
}
EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t,
	ncclComm_t c, cudaStream_t) {
	NCCL_CALLED;
	return enqueue(c, {ALL_REDUCE, (char *)to, count, type, 0, (const char *)from});
}
EXPORT ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t, int root,
	ncclComm_t c, cudaStream_t) {
	NCCL_CALLED;
	return enqueue(c, {REDUCE, (char *)to, count, type, root, (const char *)from});
}
EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t c,
	cudaStream_t) {
	NCCL_CALLED;
	return enqueue(c, {BROADCAST, (char *)to, count, type, root, (const char *)from});
}
EXPORT ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
	cudaStream_t) {
	NCCL_CALLED;
	return enqueue(c, {SEND, (char *)from, count, type, peer, (const char *)from});
}
EXPORT ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t) {
	NCCL_CALLED;
	return enqueue(c, {RECEIVE, (char *)to, count, type, peer, (const char *)to});
}
