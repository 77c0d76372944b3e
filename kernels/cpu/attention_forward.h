// The forward pass of attention for one query block: an online softmax over key blocks.

#define exp2_for AT_LEVEL(exp2_for)
#define pair_up AT_LEVEL(pair_up)
#define score_tiles AT_LEVEL(score_tiles)
#define seen AT_LEVEL(seen)
#define softmax_group AT_LEVEL(softmax_group)
#define forward_keys AT_LEVEL(forward_keys)

INLINE vec exp2_for(dtype type, vec x) { return type == F32 ? vexp2(x) : vexp2_rough(x); }

// pair_up interleaves the lanes of a and b, in bfloat16.
INLINE vec pair_up(vec a, vec b) {
#if BF16_DOT
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
		21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	return (vec)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
#else
	return a;
#endif
}

// score_tiles computes out [KEYS][LANES] = keys · queries for the tiles and groups that see each other.
INLINE void score_tiles(
	int pair, float *out, const float *keys, int64_t ldk, const float *queries, const struct view *w, int64_t depth) {
	for (int t = w->begin; t < w->end; t++) {
		int g0, g1;
		groups_of(w, t, &g0, &g1);
		if (g0 < g1)
			product(pair, out + t * TILE * LANES + g0 * GROUP, LANES, keys + t * TILE * ldk, ldk, 0, queries + g0 * GROUP, LANES,
			        TILE, (g1 - g0) * (GROUP / VLEN), depth, 1);
	}
}

// seen returns -1 in the lanes whose queries, at these positions, see a key.
INLINE vecint seen(vecint position, int key, int window) {
	vecint key_at = key - (vecint){0};
	return (key_at <= position) & (key_at > position - window);
}

// softmax_group turns a group's scores into exponentials relative to the largest score so far, and reports the factors
// by which the sums so far must be multiplied.
INLINE int softmax_group(
	int pair, dtype type, const struct block *b, struct forward *f, const struct view *w, int g, float scale) {
	int changed = 0;
	for (int lane = g * GROUP; lane < (g + 1) * GROUP; lane += VLEN) {
		float *s = f->scores + lane;
		vecint position;
		memcpy(&position, b->position + lane, sizeof position);
		vec before = vload(f->top + lane), top = before, top1 = before;
		for (int t = w->from[g]; t < w->to[g]; t++) {
			if (t >= w->all_from[g] && t < w->all_to[g]) {
				for (int n = t * TILE; n < (t + 1) * TILE; n += 2) {
					top = vmax(vload(s + n * LANES), top);
					top1 = vmax(vload(s + (n + 1) * LANES), top1);
				}
				continue;
			}
			for (int n = t * TILE; n < (t + 1) * TILE; n++) {
				vec x = vselect(seen(position, w->key + n, w->window), vload(s + n * LANES), vset(-INFINITY));
				vstore(s + n * LANES, x);
				top = vmax(x, top);
			}
		}
		top = vmax(top1, top);
		// If no key was seen yet, the largest score is -inf: exponents are then relative to 0, and all exponentials are
		// 2^-inf = 0.
		vec above = vselect(top > vset(-INFINITY), top * scale, vzero());
		vec base = vselect(vmax(above, -above) >= vset(HUGE_SCORE), top, vzero());
		if (vhmax(vmax(base, -base)) > 0) { // subtract the base before scaling
			above = vselect(base == vzero(), above, vzero()), before -= base;
			for (int n = w->from[g] * TILE; n < w->to[g] * TILE; n++) vstore(s + n * LANES, vload(s + n * LANES) - base);
		}
		vec factor = exp2_for(type, before * scale - above);
		vec sum = vload(f->sum + lane) * factor, sum1 = vzero();
		float *p = pair ? f->weights + lane : s;
		for (int n = w->from[g] * TILE; n < w->to[g] * TILE; n += 2) {
			vec p0 = exp2_for(type, vload(s + n * LANES) * scale - above);
			vec p1 = exp2_for(type, vload(s + (n + 1) * LANES) * scale - above);
			sum += p0, sum1 += p1;
			if (pair) {
				vstore(p + n / 2 * LANES, pair_up(p0, p1));
			} else {
				vstore(p + n * LANES, p0);
				vstore(p + (n + 1) * LANES, p1);
			}
		}
		vstore(f->top + lane, top);
		vstore(f->sum + lane, sum + sum1);
		vstore(f->factor + lane, factor);
		changed |= vhmax(1 - factor) > 0;
	}
	return changed;
}

// forward_keys adds the keys lo to hi to a query block that b describes: f->out [LANES][dim] are the sums of the values
// so far, f->sum the sums of the exponentials, and f->top the largest scores.
INLINE void forward_keys(
	int pair, dtype type, const cpu_attention *a, const struct block *b, struct forward *f, int64_t lo, int64_t hi) {
	const int64_t dim = f->dim, padded = round_up(dim, GROUP), words = pair ? dim / 2 : dim, ldk = round_up(words, GROUP);
	const float scale = (float)(1.4426950408889634 / a->divisor);
	const void *rows[LANES];
	lane_rows(rows, a, &a->q, b);
	pack_lanes(pair, type, f->queries, rows, b->groups * GROUP, words);
	memset(f->out, 0, (size_t)(b->groups * GROUP * padded) * sizeof(float));
	for (int i = 0; i < LANES; i++) f->top[i] = -INFINITY, f->sum[i] = 0;
	for (int64_t key = lo; key < hi; key += KEYS) {
		struct view w;
		look(&w, b, key, key + KEYS < hi ? key + KEYS : hi, a->window);
		if (w.begin == w.end) continue;
		int n = w.end * TILE;
		const void *krows[KEYS], *vrows[KEYS];
		key_rows(krows, a, &a->k, b, key, hi - key, n);
		key_rows(vrows, a, &a->v, b, key, hi - key, n);
		pack_rows(pair, type, f->keys, ldk, krows, n, words);
		pack_depth(pair, type, f->values, padded, vrows, n, dim);
		score_tiles(pair, f->scores, f->keys, ldk, f->queries, &w, words);
		for (int g = 0; g < b->groups; g++) {
			if (w.from[g] == w.to[g]) continue;
			int changed = softmax_group(pair, type, b, f, &w, g, scale);
			for (int i = g * GROUP; changed && i < (g + 1) * GROUP; i++)
				if (f->factor[i] != 1)
					for (int64_t e = 0; e < padded; e += VLEN)
						vstore(f->out + i * padded + e, vload(f->out + i * padded + e) * f->factor[i]);
			int64_t first = w.from[g] * TILE / (pair ? 2 : 1), last = w.to[g] * TILE / (pair ? 2 : 1);
			product(pair, f->out + g * GROUP * padded, padded, (pair ? f->weights : f->scores) + first * LANES + g * GROUP,
			        LANES, 1, f->values + first * padded, padded, GROUP, round_up(dim, VLEN) / VLEN, last - first, 0);
		}
	}
}

// Each is compiled for every kind of operands: floats, BF16 and F16 converted to floats, and BF16 with dot products of
// BF16.
static void AT_LEVEL(attend_keys)(
	const cpu_attention *a, const struct block *b, struct forward *f, int64_t lo, int64_t hi) {
	if (pairs(a, BF16_DOT)) forward_keys(BF16_DOT, BF16, a, b, f, lo, hi);
	else FOR_TYPE(a->q.type, forward_keys(0, type, a, b, f, lo, hi))
}

// finish_forward divides by the sums and stores the results.
static void AT_LEVEL(finish_forward)(const cpu_attention *a, const struct block *b, const struct forward *f) {
	const int64_t padded = round_up(f->dim, GROUP);
	const double scale = 1 / a->divisor;
	for (int i = 0; i < b->lanes; i++) {
		float r = 1 / f->sum[i];
		void *y = (void *)lane_row(a, &a->y, b, i);
		store_row(a->q.type, y, f->out + i * padded, r, f->dim);
		if (a->lse) *lane_lse(a, b, i) = (float)(f->top[i] * scale + logf(f->sum[i]));
	}
}
