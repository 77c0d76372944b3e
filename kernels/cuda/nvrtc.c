// libnvrtc: from source to machine code. It needs neither a GPU nor a driver.
#include <stdio.h>
#include <stdlib.h>

#include "api.h"
#include "library.h"
#include "shim.h"

typedef struct {
#define FIELD(name, parameters) nvrtcResult (*name) parameters;
	COMPILER(FIELD)
#undef FIELD
	const char *(*nvrtcGetErrorString)(nvrtcResult);
} compiler;

int cuda_preload(const char *path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL; }

// describe fills in a compiler's version and architectures.
static nvrtcResult describe(compiler *c, cuda_compiler *out) {
	const int capacity = sizeof out->archs / sizeof out->archs[0];
	nvrtcResult r;
	if ((r = c->nvrtcVersion(&out->major, &out->minor))) return r;
	if ((r = c->nvrtcGetNumSupportedArchs(&out->count))) return r;
	if (out->count > capacity) return NVRTC_ERROR_INTERNAL_ERROR; // there were 20 in 2026
	return c->nvrtcGetSupportedArchs(out->archs);
}

int cuda_open_compiler(const char *path, cuda_compiler *out, char *message, int size) {
	void *library = open_library(path, message, size);
	if (!library) return 0;
	compiler *c = calloc(1, sizeof *c);
	const char *missing = NULL;
#define LOOKUP(name, parameters) \
	if (!(c->name = (nvrtcResult(*) parameters)dlsym(library, #name))) missing = #name;
	COMPILER(LOOKUP)
#undef LOOKUP
	if (!(c->nvrtcGetErrorString = (const char *(*)(nvrtcResult))dlsym(library, "nvrtcGetErrorString")))
		missing = "nvrtcGetErrorString";
	if (missing) {
		snprintf(message, size, "it has no %s: NVRTC 11.2 or newer is needed", missing);
		free(c);
		return 0;
	}
	nvrtcResult r = describe(c, out);
	if (r != NVRTC_SUCCESS) {
		snprintf(message, size, "%s", c->nvrtcGetErrorString(r));
		free(c);
		return 0;
	}
	name_file((void *)c->nvrtcVersion, out->path, sizeof out->path);
	out->compiler = (uintptr_t)c;
	return 1;
}

static nvrtcResult image(compiler *c, nvrtcProgram program, int ptx, cuda_image *out) {
	size_t bytes = 0;
	nvrtcResult r = (ptx ? c->nvrtcGetPTXSize : c->nvrtcGetCUBINSize)(program, &bytes);
	if (r != NVRTC_SUCCESS) return r;
	out->image = malloc(bytes);
	out->bytes = bytes;
	return (ptx ? c->nvrtcGetPTX : c->nvrtcGetCUBIN)(program, out->image);
}

cuda_status cuda_compile(uintptr_t compiler_, const char *name, const char *source, int headers,
	const char *const *contents, const char *const *names, int options, const char *const *option, int ptx,
	cuda_image *out) {
	compiler *c = (compiler *)compiler_;
	nvrtcProgram program;
	nvrtcResult r = c->nvrtcCreateProgram(&program, source, name, headers, contents, names);
	if (r == NVRTC_SUCCESS) {
		r = c->nvrtcCompileProgram(program, options, option);
		size_t bytes = 0;
		if (c->nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 0) {
			out->log = calloc(bytes, 1);
			c->nvrtcGetProgramLog(program, out->log);
		}
		if (r == NVRTC_SUCCESS) r = image(c, program, ptx, out);
		c->nvrtcDestroyProgram(&program);
	}
	if (r == NVRTC_SUCCESS) return (cuda_status){0};
	return (cuda_status){r, "NVRTC", c->nvrtcGetErrorString(r)};
}
