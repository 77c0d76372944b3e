// What the other libraries need from a GPU that driver.c has opened.
#ifndef RESTYLE_CUDA_DRIVER_H
#define RESTYLE_CUDA_DRIVER_H

#include "api.h"
#include "shim.h"

// A driver holds the functions of libcuda, or of its substitute.
typedef struct {
#define FIELD(name, parameters) CUresult (*name) parameters;
	DRIVER(FIELD)
#undef FIELD
	void (*emulated_belongs)(CUdeviceptr address, size_t bytes, int to_something); // NULL: this is not the emulated GPU
} driver;

// cuda_bind binds a GPU's context to the calling thread.
cuda_status cuda_bind(uintptr_t gpu);

// cuda_driver returns a GPU's driver, and cuda_result the result of a call of it.
driver *cuda_driver(uintptr_t gpu);
cuda_status cuda_result(uintptr_t gpu, CUresult result);

// cuda_stream returns the stream on which the GPU's work is queued.
CUstream cuda_stream(uintptr_t gpu);

#endif
