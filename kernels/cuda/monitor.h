// The functions for NVML that Go calls. NVML has no context, and any thread may call it.
#ifndef RESTYLE_CUDA_MONITOR_H
#define RESTYLE_CUDA_MONITOR_H

#include <stdint.h>

// cuda_open_nvml opens and initializes libnvidia-ml at a path. It returns 0, and the reason in message, if it cannot.
uintptr_t cuda_open_nvml(const char *path, char *message, int size);

// cuda_find_meters finds a GPU, or a MIG slice, by its UUID. It returns 0, and the reason in message, if it cannot.
uintptr_t cuda_find_meters(uintptr_t nvml, const char *uuid, char *message, int size);

// What a GPU does not report is -1.
typedef struct {
	int64_t energy; // millijoules since the driver was loaded
	int64_t power;  // milliwatts
	int64_t sm, memory; // clocks, MHz
	int64_t temperature; // degrees Celsius
	int64_t held; // one bit for each reason why the clocks are held back
	int64_t free, used; // bytes of memory
} cuda_meters;

cuda_meters cuda_read_meters(uintptr_t nvml, uintptr_t gpu);

// cuda_sliced returns the number of GPUs that are divided into MIG slices.
int cuda_sliced(uintptr_t nvml);

#endif
