// FlashAttention-3 (Shah et al. 2024), forward, on the tensor cores of sm_90. The formulas are in op_attention.go, and
// the operations on tiles in flash_wgmma.cuh.
//
// A thread block takes blocks of queries, each of one head and one sequence, and goes through the keys that these see,
// KEYS at a time, the last ones first. One warpgroup only copies: STAGES tiles of keys and as many of values are in
// shared memory, and some come while others are multiplied. Each of the others has 64 queries. Their weights never
// leave registers.
//
// Tensor cores wait while scores become weights, unless they have something else to multiply: another warpgroup's
// products, or, with OVERLAP 1, the products of the weights before, which this one has started.
#include "flash_wgmma.cuh"

constexpr int QUERIES = GROUPS * 64;
// Of the last tile of keys that a block of queries sees, some warpgroups see no more than this, and compute no more.
constexpr int HALF = KEYS / 2;

// A Shape is what all blocks of queries have in common.
struct Shape {
	const int *offsets;
	int sequences, rows, heads, share, ahead, window, causal, down; // down: blocks of the longest sequence
};

// A Task is a block of queries: from first on, of a sequence that begins at a row, or nothing if its length is 0.
struct Task {
	int begin, length, head, first;

	// firstTile and lastTile return the first and the last tile of keys that the queries see.
	inline int firstTile(const Shape &s) const { return seen(s).first(first + s.ahead) / KEYS; }
	inline int lastTile(const Shape &s) const { return seen(s).last(first + s.ahead + QUERIES - 1) / KEYS; }
	// Positions count keys: query i of the sequence has position i + ahead.
	inline Seen seen(const Shape &s) const { return Seen(length + s.ahead, s.window, s.causal); }
};

// Tasks are the tasks of a thread block, which takes turns with the others; tasks with the most keys come first. In
// every second round, turns are in reverse order, so that all have much the same to do. Of sequences that are shorter
// than the longest, some blocks are empty: the lanes of a warp look at 32 rounds at a time for one that is not.
struct Tasks {
	int round = 0;

	inline int number(int round) const {
		return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
	}
	// at returns the task of a number, if it is not empty.
	static inline Task at(const Shape &s, int number) {
		const int each = s.sequences * s.heads;
		if (number >= each * s.down) return {};
		const int sequence = number % each / s.heads, begin = s.offsets ? s.offsets[sequence] : 0;
		const int length = (s.offsets ? s.offsets[sequence + 1] : s.rows) - begin;
		const int first = (s.down - 1 - number / each) * QUERIES;
		return first < length ? Task{begin, length, number % s.heads, first} : Task{};
	}
	inline Task next(const Shape &s) {
		for (; round * (int)gridDim.x < s.sequences * s.heads * s.down; round += 32) {
			const Task mine = at(s, number(round + threadIdx.x % 32));
			const unsigned found = __ballot_sync(~0u, mine.length > 0);
			if (!found) continue;
			const int lane = __ffs(found) - 1;
			round += lane + 1;
			auto its = [&](int x) { return __shfl_sync(~0u, x, lane); };
			return {its(mine.begin), its(mine.length), its(mine.head), its(mine.first)};
		}
		return {};
	}
};

// A Memory is a thread block's shared memory: tiles of queries, keys and values, room for results, and barriers. full:
// a tile is there; empty: it has been multiplied; raw: of a tile that has rows of the next sequence, these are still to
// be cleared.
struct Memory {
	char *queries, *keys, *values, *outputs;
	Barrier *queriesFull, *queriesEmpty, *keysFull, *keysEmpty, *valuesFull, *valuesEmpty, *raw;
	char *task; // 16 bytes

	Memory(uint4 *memory) {
		queries = aligned(memory), keys = queries + tileBytes(QUERIES), values = keys + STAGES * tileBytes(KEYS);
		outputs = values + STAGES * tileBytes(KEYS), task = outputs + tileBytes(QUERIES);
		queriesFull = (Barrier *)(task + 16);
		queriesEmpty = queriesFull + 1, raw = queriesEmpty + 1, keysFull = raw + 1;
		keysEmpty = keysFull + STAGES, valuesFull = keysEmpty + STAGES, valuesEmpty = valuesFull + STAGES;
	}
	void begin() const {
		if (threadIdx.x == 0) {
			barrierInit(queriesFull, 1), barrierInit(queriesEmpty, GROUPS), barrierInit(raw, 1);
#pragma unroll
			for (int i = 0; i < STAGES; i++) {
				barrierInit(keysFull + i, 1), barrierInit(keysEmpty + i, GROUPS);
				barrierInit(valuesFull + i, 1), barrierInit(valuesEmpty + i, GROUPS);
			}
			barrierFence();
		}
		__syncthreads();
	}
	// put leaves a task to those that multiply, and get takes it.
	void put(const Task &t) const {
		tileWrite(task, {(unsigned)t.begin, (unsigned)t.length, (unsigned)t.head, (unsigned)t.first});
	}
	Task get() const {
		unsigned a[2], b[2];
		tileRead(a, task), tileRead(b, task + 8);
		return {same(a[0]), same(a[1]), same(b[0]), same(b[1])};
	}
};

struct Maps { const TileMap *q, *k, *v; };

// A Copier is the warp that copies.
struct Copier {
	const Maps &maps;
	const Memory &memory;
	Ring<STAGES> keys, values;
	Ring<1> queries, raws;
	const bool one = threadIdx.x % 32 == 0; // the thread that starts copies

	void copyKeys(int row, int column) {
		if (one) {
			barrierWait(memory.keysEmpty + keys.stage, keys.parity ^ 1);
			barrierExpect(memory.keysFull + keys.stage, tileBytes(KEYS));
			bring<KEYS>(memory.keys + keys.stage * tileBytes(KEYS), maps.k, row, column, memory.keysFull + keys.stage);
		}
		keys.next();
	}
	// copyValues leaves a tile that is to be cleared to clearValues.
	void copyValues(int row, int column, bool cleared) {
		if (!one) return;
		Barrier *const there = cleared ? memory.raw : memory.valuesFull + values.stage;
		barrierWait(memory.valuesEmpty + values.stage, values.parity ^ 1);
		barrierExpect(there, tileBytes(KEYS));
		bring<KEYS>(memory.values + values.stage * tileBytes(KEYS), maps.v, row, column, there);
	}
	// clearValues overwrites rows from n on with zeros: weights of 0 do not help against a NaN.
	void clearValues(int n) {
		barrierWait(memory.raw, raws.parity), raws.next();
		clear<KEYS>(memory.values + values.stage * tileBytes(KEYS), n);
		if (one) barrierArrive(memory.valuesFull + values.stage);
	}
	void begin(const Task &t) {
		if (one) {
			barrierWait(memory.queriesEmpty, queries.parity ^ 1);
			memory.put(t);
			if (t.length == 0) {
				barrierArrive(memory.queriesFull);
			} else {
				barrierExpect(memory.queriesFull, tileBytes(QUERIES));
				bring<QUERIES>(memory.queries, maps.q, t.begin + t.first, t.head * DIM, memory.queriesFull);
			}
		}
		queries.next();
	}
	void copy(const Task &t, const Shape &s) {
		const int column = t.head / s.share * DIM, firstTile = t.firstTile(s), total = t.length + s.ahead;
		int tile = t.lastTile(s);
		copyKeys(t.begin + tile * KEYS, column);
		begin(t);
		for (; tile >= firstTile; tile--, values.next()) {
			const bool cleared = (tile + 1) * KEYS > total;
			copyValues(t.begin + tile * KEYS, column, cleared);
			if (tile > firstTile) copyKeys(t.begin + (tile - 1) * KEYS, column);
			if (cleared) clearValues(total - tile * KEYS);
		}
	}
};

// Weights turn a thread's scores into weights, one tile after the other, of two rows: exp2 of the score times steps,
// minus the largest score so far, or one slightly smaller, times steps.
struct Weights {
	float steps; // from scores to exponents of 2
	float top[2] = {-INFINITY, -INFINITY}, base[2] = {}, sum[2] = {}, keep[2];
	bool huge = false;

	// raise takes the largest scores into account, and reports whether sums so far are to be multiplied by keep. As
	// long as no weight is 2^8 times as large as the one that counts as the largest, nothing has to change: a sum of
	// floats has room for it.
	template <int N> inline bool raise(const float (&scores)[N]) {
		float most[2];
		bool larger = false;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			float x = top[e], other = scores[2 * e];
#pragma unroll
			for (int i = 0; i < N; i += 4) x = fmaxf(x, scores[i + 2 * e]), other = fmaxf(other, scores[i + 2 * e + 1]);
			x = fmaxf(x, other);
			x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
			most[e] = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
			larger = larger || (most[e] - top[e]) * steps > 8;
		}
		if (!__any_sync(~0u, larger)) return false;
		huge = false;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			keep[e] = most[e] > top[e] ? exp2Rough((top[e] - most[e]) * steps) : 1;
			top[e] = most[e];
			sum[e] *= keep[e];
			base[e] = top[e] > -INFINITY ? top[e] * steps : 0; // of a row that has seen nothing yet
			huge = huge || fabsf(base[e]) >= HUGE_SCORE;
		}
		return true;
	}
	template <int N> inline void weigh(float (&scores)[N]) {
		if (huge) subtract(scores);
		float others[2] = {};
#pragma unroll
		for (int i = 0; i < N; i++) {
			const int e = i / 2 % 2;
			const float x = scores[i] = exp2Rough(fmaf(scores[i], steps, -base[e]));
			if (i % 2) others[e] += x;
			else sum[e] += x;
		}
		sum[0] += others[0], sum[1] += others[1];
	}
	template <int N> inline void subtract(float (&scores)[N]) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			if (fabsf(top[e] * steps) < HUGE_SCORE || top[e] == -INFINITY) continue;
			base[e] = 0;
#pragma unroll
			for (int i = 0; i < N; i += 4) scores[i + 2 * e] -= top[e], scores[i + 2 * e + 1] -= top[e];
		}
	}
	// finish adds up the sums of the threads that have the same rows.
	inline void finish() {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			sum[e] += __shfl_xor_sync(~0u, sum[e], 1);
			sum[e] += __shfl_xor_sync(~0u, sum[e], 2);
		}
	}
};

// An Attender is a warpgroup that multiplies.
struct Attender {
	const Memory &memory;
	const Shape &shape;
	const int group;
	const float scale;
	Ring<STAGES> keys, values;
	Ring<1> queries;

	// Warpgroups take turns in starting products, so that the scores of one become weights during the products of the
	// others: takeTurn waits for this one's turn, and passTurn ends it.
	inline void takeTurn() const { syncSome(1 + group, 256); }
	inline void passTurn() const { arriveSome(1 + (group + 1) % GROUPS, 256); }
	template <int N> inline void startScores(float (&scores)[N]) {
		const Operand<KEYS> tile(memory.keys + keys.stage * tileBytes(KEYS));
		groupFence();
		multiplyRows(scores, Operand<QUERIES>(memory.queries + group * 64 * 128), tile, 0);
		groupCommit();
	}
	inline void startValues(float (&out)[DIM / 2], const Held (&p)[KEYS / 16], int add) {
		groupFence();
		multiplyColumns(out, p, Operand<KEYS>(memory.values + values.stage * tileBytes(KEYS)), add);
		groupCommit();
	}
	inline void waitKeys() { barrierWait(memory.keysFull + keys.stage, keys.parity); }
	inline void waitValues() { barrierWait(memory.valuesFull + values.stage, values.parity); }
	inline void releaseKeys() {
		if (first()) barrierArrive(memory.keysEmpty + keys.stage);
		keys.next();
	}
	inline void releaseValues() {
		if (first()) barrierArrive(memory.valuesEmpty + values.stage);
		values.next();
	}
	inline void releaseQueries() {
		if (first()) barrierArrive(memory.queriesEmpty);
	}
	static inline void multiply(float (&out)[DIM / 2], const float (&by)[2]) {
#pragma unroll
		for (int i = 0; i < DIM / 2; i++) out[i] *= by[i / 2 % 2];
	}
	// begin computes the weights of a block's first tile of keys; the warpgroup sees no more than LIVE of them.
	template <int LIVE>
	inline void begin(Held (&p)[KEYS / 16], Weights &weights, const Task &task, int mine, int tile) {
		float scores[LIVE / 2];
		startScores(scores);
		groupWait<0>();
		releaseKeys();
		if (tile == task.firstTile(shape)) releaseQueries();
		hide(scores, task.seen(shape), mine, tile * KEYS);
		weights.raise(scores);
		weights.weigh(scores);
		hold(p, scores);
	}
	// attend computes a block of queries.
	inline void attend(const Task &task, T *y, float *lse) {
		const Seen seen = task.seen(shape);
		const int mine = task.first + shape.ahead + group * 64, firstTile = task.firstTile(shape);
		const int lastTile = task.lastTile(shape);
		float scores[KEYS / 2], out[DIM / 2];
		Held p[KEYS / 16];
		Weights weights{scale * LOG2E};
		waitKeys();
		if (seen.last(mine + 63) < lastTile * KEYS + HALF) begin<HALF>(p, weights, task, mine, lastTile);
		else begin<KEYS>(p, weights, task, mine, lastTile);
		for (int tile = lastTile - 1; tile >= firstTile; tile--) {
			waitKeys();
			takeTurn();
			if (OVERLAP) startScores(scores);
			waitValues();
			startValues(out, p, tile < lastTile - 1);
			if (!OVERLAP) startScores(scores);
			passTurn();
			groupWait<OVERLAP>();
			releaseKeys();
			if (!OVERLAP) releaseValues();
			if (tile == firstTile) releaseQueries();
			hide(scores, seen, mine, tile * KEYS);
			const bool raised = weights.raise(scores);
			weights.weigh(scores);
			if (OVERLAP) {
				groupWait<0>();
				releaseValues();
			}
			if (raised) multiply(out, weights.keep);
			hold(p, scores);
		}
		waitValues();
		startValues(out, p, firstTile < lastTile);
		groupWait<0>();
		releaseValues();
		weights.finish();
		write(task, weights, out, y, lse);
	}
	inline void write(const Task &task, const Weights &weights, const float (&out)[DIM / 2], T *y, float *lse) {
		const int query = task.first + group * 64, row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int at = query + row + e * 8;
			if (lse && threadIdx.x % 4 == 0 && at < task.length)
				lse[(long long)task.head * shape.rows + task.begin + at] =
					weights.top[e] * scale + logf(weights.sum[e]);
		}
		T *const rows = y + ((long long)(task.begin + query) * shape.heads + task.head) * DIM;
		__syncwarp(); // all lanes have read what was there
		writeRows<16>(rows, shape.heads * DIM, task.length - query, out, memory.outputs + tileBytes(64) * group,
			[&](int e) { return 1 / weights.sum[e]; });
	}
};

extern "C" __global__ void __launch_bounds__(BLOCK_DIM, 1) attention_wgmma(const __grid_constant__ TileMap q,
	const __grid_constant__ TileMap k, const __grid_constant__ TileMap v, T *y, float *lse, const int *offsets,
	int sequences, int rows, int heads, int share, int ahead, int window, int causal, int down, float scale) {
	extern __shared__ uint4 room[];
	const Memory memory(room);
	const Shape shape{offsets, sequences, rows, heads, share, ahead, window, causal, down};
	const Maps maps{&q, &k, &v};
	if (threadIdx.x == 0) prefetchMap(&q), prefetchMap(&k), prefetchMap(&v);
	memory.begin();
	waitForPrerequisites();
	const int group = warpgroup();
	if (group == GROUPS) {
		giveRegisters<COPYING>();
		if (threadIdx.x / 32 % 4) return; // one warp copies
		Copier copier{maps, memory};
		Tasks tasks;
		for (Task t = tasks.next(shape); t.length; t = tasks.next(shape)) copier.copy(t, shape);
		copier.begin({});
		return;
	}
	takeRegisters<MULTIPLYING>();
	Attender attender{memory, shape, group, scale};
	if (group == GROUPS - 1) arriveSome(1, 256);
	for (;; attender.queries.next()) {
		barrierWait(memory.queriesFull, attender.queries.parity);
		const Task task = memory.get();
		if (task.length == 0) return;
		attender.attend(task, y, lse);
	}
}
