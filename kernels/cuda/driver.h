// What the other libraries need of a GPU that driver.c has opened.
#ifndef RESTYLE_CUDA_DRIVER_H
#define RESTYLE_CUDA_DRIVER_H

#include "api.h"
#include "shim.h"

// A driver is the functions of libcuda, or of what stands for it.
typedef struct {
#define FIELD(name, parameters) CUresult (*name) parameters;
	DRIVER(FIELD)
#undef FIELD
	void (*emulated_belongs)(CUdeviceptr address, size_t bytes, int to_something); // NULL: this is no emulated GPU
} driver;

// cuda_bind makes a GPU's context that of the calling thread.
cuda_status cuda_bind(uintptr_t gpu);

// cuda_stream is the one that the GPU's work is queued on.
CUstream cuda_stream(uintptr_t gpu);

#endif
