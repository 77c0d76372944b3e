// The backward pass of attention for one chunk of keys, one query block after the other.

#define gradient_group AT_LEVEL(gradient_group)
#define backward_chunk AT_LEVEL(backward_chunk)
#define backward_block AT_LEVEL(backward_block)

// gradient_group turns a group's scores into weights, and the weights' gradients into the scores' gradients:
// p = exp(s - lse) and ds = p·(dp - delta). Exponents of weights are at most 0, apart from rounding. For huge scores
// rounding can make them some hundred, so exponents are limited to keep gradients finite.
INLINE void gradient_group(
	int pair, dtype type, const struct block *b, struct backward *f, const struct view *w, int g, float scale) {
	for (int lane = g * GROUP; lane < (g + 1) * GROUP; lane += VLEN) {
		vecint position;
		memcpy(&position, b->position + lane, sizeof position);
		vec lse = vload(f->lse + lane), delta = vload(f->delta + lane);
		for (int t = w->from[g]; t < w->to[g]; t++) {
			int all = t >= w->all_from[g] && t < w->all_to[g];
			for (int n = t * TILE; n < (t + 1) * TILE; n += 2) {
				vec p[2], ds[2];
				for (int i = 0; i < 2; i++) {
					int64_t at = (n + i) * LANES + lane;
					p[i] = exp2_for(type, vmin(vset(1), vload(f->scores + at) * scale - lse));
					if (!all) p[i] = vselect(seen(position, w->key + n + i, w->window), p[i], vzero());
					ds[i] = p[i] * (vload(f->dscores + at) - delta);
					if (pair) {
						st(f->weights, at, VLEN, p[i], BF16);
						st(f->dweights, at, VLEN, ds[i], BF16);
					} else {
						vstore(f->scores + at, p[i]);
						vstore(f->dscores + at, ds[i]);
					}
				}
				if (pair) vstore(f->dscores_depth + n / 2 * LANES + lane, pair_up(ds[0], ds[1]));
			}
		}
	}
}

// backward_block adds to dk and dv of a chunk, the keys lo to hi, and computes dq of a query block.
INLINE void backward_block(
	int pair, dtype type, const cpu_attention *a, const struct block *b, struct backward *f, int64_t lo, int64_t hi) {
	const int64_t dim = f->dim, padded = round_up(dim, GROUP), words = pair ? dim / 2 : dim, ldk = round_up(words, GROUP);
	const int64_t vectors = round_up(dim, VLEN) / VLEN, step = pair ? 2 : 1;
	const float scale = (float)(1.4426950408889634 / a->divisor);
	const int lanes = b->groups * GROUP;
	const void *q[LANES], *dy[LANES];
	lane_rows(q, a, &a->q, b);
	lane_rows(dy, a, &a->dy, b);
	for (int i = 0; i < lanes; i++) {
		f->lse[i] = i < b->lanes ? *lane_lse(a, b, i) * 1.44269504f : 0;
		f->delta[i] = i < b->lanes ? dot_rows(type, dy[i], lane_row(a, &a->y, b, i), dim) : 0;
	}
	pack_lanes(pair, type, f->queries, q, lanes, words);
	pack_lanes(pair, type, f->dys, dy, lanes, words);
	pack_depth(pair, type, f->queries_depth, padded, q, lanes, dim);
	pack_depth(pair, type, f->dys_depth, padded, dy, lanes, dim);
	memset(f->dq, 0, (size_t)(lanes * padded) * sizeof(float));
	const float *weights = pair ? f->weights : f->scores, *dweights = pair ? f->dweights : f->dscores;
	const float *dscores_depth = pair ? f->dscores_depth : f->dscores;
	for (int64_t key = lo; key < hi; key += KEYS) {
		struct view w;
		look(&w, b, key, key + KEYS < hi ? key + KEYS : hi, a->window);
		if (w.begin == w.end) continue;
		score_tiles(pair, f->scores, f->keys + (key - lo) * ldk, ldk, f->queries, &w, words);
		score_tiles(pair, f->dscores, f->values + (key - lo) * ldk, ldk, f->dys, &w, words);
		for (int g = 0; g < b->groups; g++) gradient_group(pair, type, b, f, &w, g, scale);
		for (int t = w.begin; t < w.end; t++) {
			int g0, g1;
			groups_of(&w, t, &g0, &g1);
			if (g0 >= g1) continue;
			int64_t at = t * TILE * LANES / step + g0 * GROUP / step, depth = (g1 - g0) * GROUP / step;
			int64_t from = g0 * GROUP / step * padded, to = (key - lo + t * TILE) * padded;
			product(pair, f->dv + to, padded, weights + at, LANES / step, 0, f->dys_depth + from, padded, TILE, vectors,
				depth, 0);
			product(pair, f->dk + to, padded, dweights + at, LANES / step, 0, f->queries_depth + from, padded, TILE, vectors,
			        depth, 0);
		}
		for (int g = 0; g < b->groups; g++) {
			int64_t first = w.from[g] * TILE / step, last = w.to[g] * TILE / step;
			product(pair, f->dq + g * GROUP * padded, padded, dscores_depth + first * LANES + g * GROUP, LANES, 1,
			        f->keys_depth + ((key - lo) / step + first) * padded, padded, GROUP, vectors, last - first, 0);
		}
	}
}

// backward_chunk computes dk and dv of the keys lo to hi of one key/value head, and what these keys add to dq: dq
// itself if slab is NULL, or otherwise terms to be added up, slab [len][heads][dim].
INLINE void backward_chunk(int pair, dtype type, const cpu_attention *a, struct backward *f, int64_t row, int64_t len,
                           int kv_head, int64_t lo, int64_t hi, float *slab) {
	const int64_t dim = f->dim, padded = round_up(dim, GROUP), words = pair ? dim / 2 : dim, ldk = round_up(words, GROUP);
	const float scale = (float)(1 / a->divisor);
	struct block b;
	block_at(&b, a, row, len, kv_head, 0);
	for (int64_t key = lo; key < hi; key += KEYS) {
		const void *k[KEYS], *v[KEYS];
		int n = (int)round_up(hi - key < KEYS ? hi - key : KEYS, TILE);
		key_rows(k, a, &a->k, &b, key, hi - key, n);
		key_rows(v, a, &a->v, &b, key, hi - key, n);
		pack_rows(pair, type, f->keys + (key - lo) * ldk, ldk, k, n, words);
		pack_rows(pair, type, f->values + (key - lo) * ldk, ldk, v, n, words);
		pack_depth(pair, type, f->keys_depth + (key - lo) / (pair ? 2 : 1) * padded, padded, k, n, dim);
	}
	size_t bytes = (size_t)(round_up(hi - lo, TILE) * padded) * sizeof(float);
	memset(f->dk, 0, bytes);
	memset(f->dv, 0, bytes);
	for (int64_t first = a->causal ? lo * b.share / LANES * LANES : 0; first < len * b.share; first += LANES) {
		block_at(&b, a, row, len, kv_head, first);
		if (a->window > 0 && first / b.share >= hi + a->window) break;
		backward_block(pair, type, a, &b, f, lo, hi);
		for (int i = 0; i < b.lanes; i++) {
			if (slab)
				memcpy(slab + (b.lane_row[i] * (int64_t)a->heads + b.head + b.lane_head[i]) * padded, f->dq + i * padded,
				       (size_t)padded * sizeof(float));
			else
				store_row(type, (void *)lane_row(a, &a->dq, &b, i), f->dq + i * padded, scale, dim);
		}
	}
	for (int64_t key = lo; key < hi; key++) {
		store_row(type, (void *)row_of(a, &a->dk, row + key, kv_head), f->dk + (key - lo) * padded, scale, dim);
		store_row(type, (void *)row_of(a, &a->dv, row + key, kv_head), f->dv + (key - lo) * padded, 1, dim);
	}
}

static void AT_LEVEL(attend_back)(const cpu_attention *a, struct backward *f, int64_t row, int64_t len, int kv_head,
                                  int64_t lo, int64_t hi, float *slab) {
	if (pairs(a, BF16_DOT)) backward_chunk(BF16_DOT, BF16, a, f, row, len, kv_head, lo, hi, slab);
	else FOR_TYPE(a->q.type, backward_chunk(0, type, a, f, row, len, kv_head, lo, hi, slab))
}

// sum_row stores the sum of n rows, which are a constant number of floats apart.
static void AT_LEVEL(sum_row)(const cpu_attention *a, void *row, float *first, int64_t n, int64_t apart) {
	for (int64_t i = 1; i < n; i++)
		for (int64_t e = 0; e < round_up(a->head_dim, GROUP); e += VLEN)
			vstore(first + e, vload(first + e) + vload(first + i * apart + e));
	store_row(a->q.type, row, first, (float)(1 / a->divisor), a->head_dim);
}
