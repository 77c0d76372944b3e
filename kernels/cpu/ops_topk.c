// The largest elements of rows; kernels/op_topk.go has their order.
#include "ops.h"

typedef struct {
	tensor values, indices, x;
	int64_t k;
} topk_operands;

static float at(const topk_operands *o, int64_t r, int32_t i) {
	return element(row(o->x, r, o->x.type), i, o->x.type);
}

// before reports whether element i of a row comes before element j.
static bool before(const topk_operands *o, int64_t r, int32_t i, int32_t j) {
	float x = at(o, r, i), y = at(o, r, j);
	if (x != x || y != y) return x != x && (y == y || i < j);
	return x > y || (x == y && i < j);
}

// sift moves the index at the root of a heap of n down to its place. The last in order is at the root.
static void sift(const topk_operands *o, int64_t r, int32_t *heap, int64_t root, int64_t n) {
	for (int64_t child; (child = 2 * root + 1) < n; root = child) {
		if (child + 1 < n && before(o, r, heap[child], heap[child + 1])) child++;
		if (before(o, r, heap[child], heap[root])) return;
		int32_t moved = heap[root];
		heap[root] = heap[child], heap[child] = moved;
	}
}

// The first k indices become a heap. Any other that comes before the root takes its place.
static void topk(void *arg, int64_t lo, int64_t hi) {
	const topk_operands *o = arg;
	const int64_t k = o->k, size = size_of(o->x.type);
	for (int64_t r = lo; r < hi; r++) {
		int32_t *heap = (int32_t *)o->indices.at + r * k;
		for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)i;
		for (int64_t i = k / 2 - 1; i >= 0; i--) sift(o, r, heap, i, k);
		float root = at(o, r, heap[0]);
		for (int64_t i = k; i < o->x.cols; i++) {
			float x = at(o, r, (int32_t)i);
			if (!(x > root || (x != x && root == root))) continue; // an equal has a lower index
			heap[0] = (int32_t)i;
			sift(o, r, heap, 0, k);
			root = at(o, r, heap[0]);
		}
		for (int64_t n = k - 1; n > 0; n--) {
			int32_t last = heap[0];
			heap[0] = heap[n], heap[n] = last;
			sift(o, r, heap, 0, n);
		}
		for (int64_t i = 0; i < k && o->values.at; i++)
			memcpy((char *)o->values.at + (r * k + i) * size, (char *)row(o->x, r, o->x.type) + heap[i] * size, (size_t)size);
	}
}

// TopK finds the indices of the k largest elements of each row in falling order and copies them to values, if there is
// such a tensor.
void cpu_topk(tensor values, tensor indices, tensor x, int64_t k) {
	topk_operands o = {values, indices, x, k};
	if (k > 0) cpu_parallel(topk, &o, x.rows, grain(x.cols * 4));
}

static void topk_backward(void *arg, int64_t lo, int64_t hi) {
	const topk_operands *o = arg;
	const int64_t k = o->k, size = size_of(o->x.type);
	for (int64_t r = lo; r < hi; r++) {
		char *dx = row(o->x, r, o->x.type);
		memset(dx, 0, (size_t)(o->x.cols * size));
		for (int64_t i = r * k; i < (r + 1) * k; i++)
			memcpy(dx + ((int32_t *)o->indices.at)[i] * size, (char *)o->values.at + i * size, (size_t)size);
	}
}

// TopKBackward copies dvalues to where the values came from in dx, and stores 0 elsewhere.
void cpu_topk_backward(tensor dx, tensor dvalues, tensor indices, int64_t k) {
	topk_operands o = {dvalues, indices, dx, k};
	cpu_parallel(topk_backward, &o, dx.rows, grain(dx.cols * 4));
}
