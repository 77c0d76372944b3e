// How each of the libraries is opened.
#ifndef RESTYLE_CUDA_LIBRARY_H
#define RESTYLE_CUDA_LIBRARY_H

#include <dlfcn.h>
#include <stddef.h>

// open_library opens a library at a path. It returns NULL, and the reason in message, if it cannot.
void *open_library(const char *path, char *message, int size);

// name_file writes the path of the file that the loader has opened for a function.
void name_file(void *function, char *path, size_t size);

#endif
