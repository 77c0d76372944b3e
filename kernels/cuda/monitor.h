// What Go calls of NVML. It has no context, and no thread matters.
#ifndef RESTYLE_CUDA_MONITOR_H
#define RESTYLE_CUDA_MONITOR_H

#include <stdint.h>

// cuda_open_nvml opens libnvidia-ml at a path and takes it into use. 0: it could not, and message says why.
uintptr_t cuda_open_nvml(const char *path, char *message, int size);

// cuda_find_meters finds a GPU, or a slice of one, by its UUID. 0: it could not, and message says why.
uintptr_t cuda_find_meters(uintptr_t nvml, const char *uuid, char *message, int size);

// What a GPU does not tell is -1.
typedef struct {
	int64_t energy; // millijoules since the driver was loaded
	int64_t power;  // milliwatts
	int64_t sm, memory; // clocks, MHz
	int64_t temperature; // degrees Celsius
	int64_t held; // a bit for each reason why the clocks are held back
	int64_t free, used; // bytes of memory
} cuda_meters;

cuda_meters cuda_read_meters(uintptr_t nvml, uintptr_t gpu);

// cuda_sliced is how many of the machine's GPUs are cut into MIG slices.
int cuda_sliced(uintptr_t nvml);

#endif
