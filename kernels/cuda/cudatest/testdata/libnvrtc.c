// A stand-in for NVRTC, for tests of what surrounds it. The image of a program is a line with how many were compiled
// before, and then all that it was given, so that tests see both. A source that has "#error" does not compile. It is of
// version 12.3, and compiles for GPUs up to 9.0; in a folder whose name has "newer", it does so up to 10.0.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../api.h"

struct _nvrtcProgram {
	char text[1 << 20], image[1 << 21];
};

nvrtcResult nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 3; return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetNumSupportedArchs(int *n) {
	Dl_info self;
	*n = dladdr((void *)nvrtcVersion, &self) && strstr(self.dli_fname, "newer") ? 5 : 4;
	return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int *archs) {
	int n;
	nvrtcGetNumSupportedArchs(&n);
	memcpy(archs, (int[]){75, 80, 86, 90, 100}, n * sizeof(int));
	return NVRTC_SUCCESS;
}
const char *nvrtcGetErrorString(nvrtcResult r) {
	return r == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int headers,
	const char *const *contents, const char *const *names) {
	*p = calloc(1, sizeof **p);
	int n = snprintf((*p)->text, sizeof (*p)->text, "%s\n%s\n", name, source);
	for (int i = 0; i < headers; i++)
		n += snprintf((*p)->text + n, sizeof(*p)->text - n, "%s: %s\n", names[i], contents[i]);
	return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) { free(*p); return NVRTC_SUCCESS; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options) {
	static _Atomic int compiled;
	int n = snprintf(p->image, sizeof p->image, "%d\n%s", compiled++, p->text);
	for (int i = 0; i < count; i++) n += snprintf(p->image + n, sizeof p->image - n, "%s\n", options[i]);
	return strstr(p->text, "#error") ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n) { *n = sizeof "said"; return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) { strcpy(log, "said"); return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *n) { *n = strlen(p->image); return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *image) {
	memcpy(image, p->image, strlen(p->image));
	return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *n) { *n = 3; return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *image) { memcpy(image, "PTX", 3); return NVRTC_SUCCESS; }
