// The products of flash.cuh's tiles in F32. Tensor cores have none: they multiply TF32, F32 with 11 significant bits.
// An element is the sum of two of them, to 2⁻²³, and a product the sum of three products: the fourth, of the two
// smaller parts, is less than 2⁻²² of it (Ootomo and Yokota 2022).
//
// Tensor cores also cut off what does not fit a sum, so all errors of a long sum have the same sign. Short sums are
// added up with rounding.
#pragma once

// Parts are the two parts of each word of a fragment.
template <int N> struct Parts {
	unsigned large[N], small[N];
	inline Parts() {}
	inline explicit Parts(const unsigned (&x)[N]) {
#pragma unroll
		for (int e = 0; e < N; e++) {
			large[e] = x[e] + 0x1000 & ~0x1FFFu;
			small[e] = __float_as_uint(__uint_as_float(x[e]) - __uint_as_float(large[e]));
		}
	}
};

// multiply adds a·b to M times N tiles of a sum. A product waits for the last one of its tile, so the three of a tile
// are far apart.
template <int M, int N> inline void multiply(Sum<M, N> &sum, const Parts<4> (&a)[M], const Parts<2> (&b)[N]) {
#pragma unroll
	for (int part = 0; part < 3; part++) {
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int i = 0; i < M; i++)
				mmaTF32(sum.at[i][n], part == 0 ? a[i].small : a[i].large, part == 1 ? b[n].small : b[n].large);
		}
	}
}

// add adds a part of N·8 columns to a sum, from its first·8-th column on.
template <int M, int ALL, int N> inline void add(Sum<M, ALL> &sum, const Sum<M, N> &part, int first) {
#pragma unroll
	for (int i = 0; i < M; i++) {
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int e = 0; e < 4; e++) sum.at[i][first + n][e] += part.at[i][n][e];
		}
	}
}

// addRows adds a·bᵀ to a sum, where b is a tile of N·8 rows.
template <int M, int N> inline void addRows(Sum<M, N> &sum, const Rows<M> &rows, const char *b) {
	constexpr int RUN = 4; // steps of a short sum
	static_assert(STEPS % RUN == 0, "");
#pragma unroll
	for (int first = 0; first < STEPS; first += RUN) {
		Sum<M, N> part = {};
#pragma unroll
		for (int k = first; k < first + RUN; k++) {
			Parts<4> left[M];
			Parts<2> right[N];
#pragma unroll
			for (int i = 0; i < M; i++) {
				Left words;
				rows.get(words, i, k);
				left[i] = Parts<4>(words);
			}
#pragma unroll
			for (int n = 0; n < N; n += 2) {
				unsigned both[4];
				ldmatrix(both, b + n * 8 * ROW + beside(k));
				right[n] = Parts<2>({both[0], both[1]});
				right[n + 1] = Parts<2>({both[2], both[3]});
			}
			multiply(part, left, right);
		}
		add(sum, part, 0);
	}
}

// addScores is addRows from 0 on. The parts of an infinite element are infinite and NaN, so a NaN may be wrong, and is
// computed again without parts.
template <int M, int N> inline void addScores(Sum<M, N> &sum, const Rows<M> &rows, const char *b) {
	addRows(sum, rows, b);
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int i = 0; i < M; i++) {
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float &x = sum.at[i][n][e];
				if (x == x) continue;
				const int row = i * 16 + e / 2 * 8 + g, column = n * 8 + t * 2 + e % 2;
				x = 0;
#pragma unroll 1
				for (int k = 0; k < DIM; k++) {
					x = fmaf(*(const float *)(rows.tile + place(row, k / 4) + k % 4 * 4),
						*(const float *)(b + place(column, k / 4) + k % 4 * 4), x);
				}
			}
		}
	}
}

// addColumns adds p·b to a sum of DIM columns, where p is a sum of N·8 columns, and b a tile of as many rows. A lane
// reads four columns of b at once, so of 32 columns, number j of tile e is 4·j + e. A lane has the columns 2t
// and 2t+1 of p, which are t and t+4 of the product: so are the rows of b.
template <int M, int N> inline void addColumns(Sum<M, DIM / 8> &sum, const Sum<M, N> &p, const char *b) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int n = 0; n < DIM / 8; n += 4) {
		Sum<M, 4> part = {};
#pragma unroll
		for (int k = 0; k < N; k++) {
			Parts<4> left[M];
			Parts<2> right[4];
#pragma unroll
			for (int i = 0; i < M; i++) {
				const float(&x)[4] = p.at[i][k];
				left[i] = Parts<4>({__float_as_uint(x[0]), __float_as_uint(x[2]), __float_as_uint(x[1]), __float_as_uint(x[3])});
			}
			const Vec<float, 4> one = loadCachedOf<4>((const float *)(b + place(k * 8 + t * 2, n * 2 + g)), 0);
			const Vec<float, 4> other = loadCachedOf<4>((const float *)(b + place(k * 8 + t * 2 + 1, n * 2 + g)), 0);
#pragma unroll
			for (int e = 0; e < 4; e++) right[e] = Parts<2>({__float_as_uint(one.at[e]), __float_as_uint(other.at[e])});
			multiply(part, left, right);
		}
		add(sum, part, n);
	}
}

// finish writes a warp's sum, each row times its scale, to n rows that are stride elements apart.
template <int M, typename F>
inline void finish(T *rows, int stride, int n, Sum<M, DIM / 8> &sum, char *, F scale) {
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
	for (int i = 0; i < M; i++) {
#pragma unroll
		for (int e = 0; e < 2; e++) {
			const int row = i * 16 + e * 8 + g;
			if (row >= n) continue;
			const float by = scale(i, e);
#pragma unroll
			for (int c = 0; c < DIM / 8; c += 4) {
#pragma unroll
				for (int half = 0; half < 2; half++) {
					Vec<float, 4> v;
#pragma unroll
					for (int at = 0; at < 4; at++) v.at[at] = sum.at[i][c + at][e * 2 + half] * by;
					*(Vec<float, 4> *)(rows + (long long)row * stride + c * 8 + t * 8 + half * 4) = v;
				}
			}
		}
	}
}
