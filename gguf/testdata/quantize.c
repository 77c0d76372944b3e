// Quantizes rows with ggml's library, argv[1]: reads type, rows, elements and bytes of a row as int64, and the rows'
// floats, from stdin, again and again, and writes the blocks to stdout.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef size_t quantize(int type, const float *x, void *to, int64_t start, int64_t rows, int64_t n, const float *w);

int main(int argc, char **argv) {
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	quantize *f = library ? (quantize *)dlsym(library, "ggml_quantize_chunk") : NULL;
	if (!f) return fprintf(stderr, "%s\n", dlerror()), 1;
	for (int64_t head[4]; fread(head, 8, 4, stdin) == 4;) {
		const size_t n = head[1] * head[2], size = head[1] * head[3];
		float *x = malloc(4 * n);
		void *to = calloc(1, size);
		if (!x || !to || fread(x, 4, n, stdin) != n) return 2;
		f((int)head[0], x, to, 0, head[1], head[2], NULL);
		if (fwrite(to, 1, size, stdout) != size) return 3;
		free(x), free(to);
	}
	return 0;
}
