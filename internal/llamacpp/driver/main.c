// Runs one GGUF model in llama.cpp, on the CPU, for the Go package above this directory:
//
//	driver LIBRARIES MODEL THREADS CONTEXT EXACT SEQUENCES
//
// A request on stdin is a line "WORD X N BYTES" and that many bytes. The answer on stdout is a line with a number of
// bytes, and these. Integers are int32_t, logits float, both as in memory. The first answer needs no request: the model
// is open. An error ends the program; the last lines on stderr, where llama.cpp logs its warnings, say why.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The interface of llama.cpp, as in its include/llama.h, ggml/include/ggml.h and ggml-backend.h. Structures are passed
// by value, so all of each must be right: another version's may differ.
#define VERSION "0.5.0"

typedef struct {
	void *devices, *buffer_types;
	int32_t gpu_layers, split, load, lazy, main_gpu;
	const float *shares;
	void *progress, *progress_data, *overrides;
	bool vocab_only, check_tensors, repack, no_host, no_alloc, load_mtp;
} model_params;

typedef struct {
	uint32_t context, batch, pass, sequences, snapshots, outputs, outputs_each;
	int32_t threads, threads_batch;
	int32_t kind, rope_scaling, pooling, attention, flash_attention;
	float rope_base, rope_scale, yarn[4];
	uint32_t yarn_context;
	float defrag;
	void *evaluate, *evaluate_data;
	int32_t type_k, type_v;
	void *abort, *abort_data;
	bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
	void *samplers;
	size_t n_samplers;
	void *other;
} context_params;

typedef struct {
	int32_t n;
	int32_t *token;
	float *embedding;
	int32_t *position, *n_seq;
	int32_t **seq;
	int8_t *wanted; // whose logits
} batch;

typedef struct {
	bool mask[512];
	int threads, priority;
	uint32_t poll;
	bool strict, paused;
} pool_params;

enum { TYPE_F32 = 0, DEVICE_CPU = 0, NO_FLASH_ATTENTION = 0, WARNING = 3 };

static void *library;
static FILE *answers;

static _Noreturn void fail(const char *what, const char *which) {
	fprintf(stderr, "%s%s\n", what, which);
	_exit(1); // without what the libraries do at an end
}

static void *function(const char *name) {
	void *f = dlsym(library, name); // also in the libraries that it needs
	if (!f) fail("libllama has no ", name);
	return f;
}

// CALL(int, f, int, int)(1, 2) calls the library's int f(int, int).
#define CALL(result, name, ...) ((result(*)(__VA_ARGS__))function(#name))

static void *model, *context;
static const void *vocab;
static int n_vocab, n_context, n_seq, past; // past: tokens of each sequence in the KV cache

static void answer(const void *data, size_t bytes) {
	fprintf(answers, "%zu\n", bytes);
	fwrite(data, 1, bytes, answers);
	fflush(answers);
}

// keep_warnings passes on warnings and errors, and the lines that go on from them.
static void keep_warnings(int level, const char *text, void *data) {
	static int last;
	(void)data;
	if (level != 5) last = level;
	if (last >= WARNING && last < 5) fputs(text, stderr);
}

static int find_cpu(struct dl_phdr_info *info, size_t size, void *found) {
	const char *at = strstr(info->dlpi_name, "libggml-cpu-");
	(void)size;
	if (at) snprintf(found, 64, "%s", at + strlen("libggml-cpu-"));
	return 0;
}

// open_library loads libllama and, of the forms of its kernels for CPUs, the fastest that this machine can run, whose
// name it sets. It returns the version.
static const char *open_library(const char *dir, char cpu[64]) {
	char pattern[4096];
	glob_t found;
	snprintf(pattern, sizeof pattern, "%s/libllama.*", dir);
	if (glob(pattern, 0, NULL, &found) != 0) fail("there is no ", pattern);
	library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
	if (!library) fail("", dlerror());
	const char *version = CALL(const char *, llama_version, void)();
	if (strncmp(version, VERSION, strlen(VERSION)) != 0) fail("llama.cpp must be version " VERSION ", not ", version);
	CALL(void, llama_log_set, void *, void *)((void *)keep_warnings, NULL);
	CALL(void, ggml_backend_load_all_from_path, const char *)(dir);
	CALL(void, llama_backend_init, void)();
	dl_iterate_phdr(find_cpu, cpu);
	cpu[strcspn(cpu, ".")] = 0;
	return version;
}

// open_model loads a model. exact asks for a KV cache in float32, plain attention, and weights as the file has them.
static void open_model(const char *path, int threads, bool exact) {
	model_params m = CALL(model_params, llama_model_default_params, void)();
	context_params c = CALL(context_params, llama_context_default_params, void)();
	if (!m.repack || m.load_mtp || c.context != 512 || c.pass != 512 || c.defrag != -1 || !c.swa_full || c.other)
		fail("the defaults of the parameters are not those of version ", VERSION);
	if (exact) m.repack = false; // as AMX has them, rows of 32 weights in blocks give wrong products
	model = CALL(void *, llama_model_load_from_file, const char *, model_params)(path, m);
	if (!model) fail("llama.cpp does not load ", path);
	vocab = CALL(const void *, llama_model_get_vocab, const void *)(model);
	n_vocab = CALL(int32_t, llama_vocab_n_tokens, const void *)(vocab);

	c.context = c.batch = n_context;
	c.sequences = n_seq;
	c.kv_unified = true; // as llama.cpp's programs share it
	c.threads = c.threads_batch = threads;
	if (exact) {
		c.type_k = c.type_v = TYPE_F32;
		c.flash_attention = NO_FLASH_ATTENTION;
	}
	context = CALL(void *, llama_init_from_model, void *, context_params)(model, c);
	if (!context) fail("llama.cpp makes no context for ", path);

	// Threads that stay, as llama.cpp's own programs have them: else every token starts new ones.
	pool_params p = CALL(pool_params, ggml_threadpool_params_default, int)(threads);
	void *device = CALL(void *, ggml_backend_dev_by_type, int)(DEVICE_CPU);
	void *registry = CALL(void *, ggml_backend_dev_backend_reg, void *)(device);
	void *(*new_pool)(pool_params *) = (void *(*)(pool_params *))CALL(void *, ggml_backend_reg_get_proc_address, void *,
		const char *)(registry, "ggml_threadpool_new");
	if (!new_pool) fail("libggml-cpu has no ", "ggml_threadpool_new");
	CALL(void, llama_attach_threadpool, void *, void *, void *)(context, new_pool(&p), NULL);
}

static void trim(int n) {
	void *memory = CALL(void *, llama_get_memory, const void *)(context);
	CALL(bool, llama_memory_seq_rm, void *, int32_t, int32_t, int32_t)(memory, -1, n, -1); // of all sequences
	past = n;
}

// decode appends tokens to the cache. It computes the logits of the last one, or of all.
static void decode(int32_t *ids, int n, bool all) {
	if (n < 1 || past + n > n_context) fail("the tokens are none, or more than the context has room for", "");
	for (int i = 0; i < n; i++) {
		if (ids[i] < 0 || ids[i] >= n_vocab) fail("a token that the vocabulary does not have", "");
	}
	int8_t *wanted = memset(malloc(n), 1, n);
	batch b = {.n = n, .token = ids, .wanted = all ? wanted : NULL}; // NULL: only of the last
	if (CALL(int32_t, llama_decode, void *, batch)(context, b)) fail("llama_decode", " failed");
	free(wanted);
	past += n;
}

// largest returns the first of the largest logits of a token of the last batch, or with -1 of the last one.
static int32_t largest(int row) {
	const float *x = CALL(float *, llama_get_logits_ith, void *, int32_t)(context, row);
	int best = 0;
	for (int from = 0; from < n_vocab; from += 256) { // a maximum alone is a loop of vectors
		int to = from + 256 < n_vocab ? from + 256 : n_vocab;
		float most = x[from];
		for (int i = from; i < to; i++) most = x[i] > most ? x[i] : most;
		if (most <= x[best]) continue;
		for (best = from; x[best] != most;) best++;
	}
	return best;
}

static void ends(void) {
	int32_t *ids = malloc(sizeof *ids * (n_vocab + 1)), n = 0;
	for (int32_t i = 0; i < n_vocab; i++) {
		if (CALL(bool, llama_vocab_is_eog, const void *, int32_t)(vocab, i)) ids[n++] = i;
	}
	answer(ids, sizeof *ids * n);
	free(ids);
}

static void tokenize(const char *text, int bytes, bool add, bool parse) {
	int room = bytes + 16;
	int32_t *ids = malloc(sizeof *ids * room);
	int n = CALL(int32_t, llama_tokenize, const void *, const char *, int32_t, int32_t *, int32_t, bool, bool)(vocab, text,
		bytes, ids, room, add, parse);
	if (n < 0) fail("llama_tokenize", " failed");
	answer(ids, sizeof *ids * n);
	free(ids);
}

static void logits(int32_t *ids, int n) {
	trim(0);
	decode(ids, n, true);
	const float *x = CALL(float *, llama_get_logits, void *)(context);
	answer(x, sizeof *x * n * n_vocab);
}

static void next(int32_t id, int n) {
	int32_t *ids = malloc(sizeof *ids * (n + 1));
	for (int i = 0; i < n; i++) {
		decode(&id, 1, false);
		id = ids[i] = largest(-1);
	}
	answer(ids, sizeof *ids * n);
	free(ids);
}

// many appends n tokens to each of the sequences in one batch, whose tokens are in the order of the sequences. It
// replaces the first of these by the most likely tokens after them.
static void many(int32_t *ids, int n) {
	int rows = n_seq * n, *seq = malloc(sizeof *seq * n_seq);
	int32_t *position = malloc(sizeof *position * rows), *ones = malloc(sizeof *ones * rows);
	int32_t **seqs = malloc(sizeof *seqs * rows);
	int8_t *wanted = calloc(rows, 1);
	for (int s = 0; s < n_seq; s++) seq[s] = s;
	for (int i = 0; i < rows; i++) {
		position[i] = past + i % n;
		ones[i] = 1;
		seqs[i] = &seq[i / n];
		wanted[i] = i % n == n - 1;
	}
	batch b = {.n = rows, .token = ids, .position = position, .n_seq = ones, .seq = seqs, .wanted = wanted};
	if (CALL(int32_t, llama_decode, void *, batch)(context, b)) fail("llama_decode", " failed");
	for (int s = 0; s < n_seq; s++) ids[s] = largest(s * n + n - 1);
	past += n;
	free(seq), free(position), free(ones), free(seqs), free(wanted);
}

// many_answers reads a prompt of each sequence, and answers with n tokens, all at the same time.
static void many_answers(int32_t *ids, int count, int n) {
	if (count % n_seq || count / n_seq < 1 || count + n * n_seq > n_context)
		fail("the prompts are not as long as each other, or too long", "");
	int32_t *all = malloc(sizeof *all * n * n_seq);
	trim(0);
	many(ids, count / n_seq);
	for (int i = 0; i < n; i++) {
		for (int s = 0; s < n_seq; s++) all[s * n + i] = ids[s];
		if (i + 1 < n) many(ids, 1);
	}
	answer(all, sizeof *all * n * n_seq);
	free(all);
}

static void adapter(const char *path, float scale) {
	void *a = CALL(void *, llama_adapter_lora_init, void *, const char *)(model, path);
	if (!a) fail("llama.cpp does not load the adapter ", path);
	if (CALL(int32_t, llama_set_adapters_lora, void *, void **, size_t, float *)(context, &a, 1, &scale))
		fail("llama.cpp does not apply the adapter ", path);
	answer("", 0);
}

static void serve(const char *word, double x, int n, char *data, int bytes) {
	int32_t *ids = (int32_t *)data, count = bytes / (int)sizeof *ids;
	if (!strcmp(word, "ends")) ends();
	else if (!strcmp(word, "template")) {
		const char *text = CALL(const char *, llama_model_chat_template, const void *, const char *)(model, NULL);
		answer(text ? text : "", text ? strlen(text) : 0);
	} else if (!strcmp(word, "tokenize")) tokenize(data, bytes, n & 1, n & 2);
	else if (!strcmp(word, "logits")) logits(ids, count);
	else if (!strcmp(word, "read")) {
		decode(ids, count, false);
		answer(&(int32_t){largest(-1)}, sizeof(int32_t));
	} else if (!strcmp(word, "trim")) {
		trim(n);
		answer("", 0);
	} else if (!strcmp(word, "next")) next((int32_t)x, n);
	else if (!strcmp(word, "many")) many_answers(ids, count, n);
	else if (!strcmp(word, "adapter")) adapter(data, (float)x);
	else fail("no such request: ", word);
}

int main(int argc, char **argv) {
	answers = fdopen(dup(1), "w");
	dup2(2, 1); // what a library prints is no answer
	if (argc != 7) fail("usage: driver LIBRARIES MODEL THREADS CONTEXT EXACT SEQUENCES", "");
	char cpu[64] = "", about[128];
	const char *version = open_library(argv[1], cpu);
	n_context = atoi(argv[4]);
	n_seq = atoi(argv[6]);
	open_model(argv[2], atoi(argv[3]), atoi(argv[5]));
	answer(about, snprintf(about, sizeof about, "%s %s %d", version, cpu[0] ? cpu : "?", n_vocab));

	char word[16];
	double x;
	int n, bytes;
	while (scanf("%15s %lf %d %d", word, &x, &n, &bytes) == 4 && getchar() == '\n') {
		char *data = calloc(bytes + 1, 1); // a text ends with 0
		if (fread(data, 1, bytes, stdin) != (size_t)bytes) break;
		serve(word, x, n, data, bytes);
		free(data);
	}
	_exit(0);
}
