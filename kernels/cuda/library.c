#define _GNU_SOURCE // for dladdr
#include "library.h"

#include <stdio.h>

void *open_library(const char *path, char *message, int size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) snprintf(message, size, "%s", dlerror());
	return library;
}

void name_file(void *function, char *path, size_t size) {
	Dl_info info;
	if (dladdr(function, &info)) snprintf(path, size, "%s", info.dli_fname);
}
