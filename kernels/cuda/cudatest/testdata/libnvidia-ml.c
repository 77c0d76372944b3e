// A stand-in for NVML, for the GPUs of the one for libcuda. Every reading of the energy is half a joule more than the
// one before.
//
//   STANDIN_GPUS, STANDIN_MEMORY, STANDIN_USED  as there
//   STANDIN_NVML                what nvmlInit answers
//   STANDIN_HELD                the bits of what holds the clocks back
//   STANDIN_SLICED              1: the GPUs are MIG slices, which tell their memory and no more
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "../../nvml_api.h"

enum { GPUS = 4, CAPACITY = 1 << 20, NOT_FOUND = 6 };

struct nvmlDevice_st {
	char uuid[64];
};
static struct nvmlDevice_st devices[GPUS];

static long setting(const char *name, int device, long usual) {
	const char *text = getenv(name);
	for (; text && *text && device > 0; device--) {
		text = strchr(text, ',');
		if (text) text++;
	}
	return text && *text && *text != ',' ? atol(text) : usual;
}
static int sliced(void) { return setting("STANDIN_SLICED", 0, 0); }

nvmlReturn_t nvmlInit_v2(void) { return setting("STANDIN_NVML", 0, NVML_SUCCESS); }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NOT_FOUND ? "Not Found" : "Driver/library version mismatch"; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) { *count = setting("STANDIN_GPUS", 0, 2); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) { *d = &devices[i]; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d) {
	for (int i = 0; i < setting("STANDIN_GPUS", 0, 2); i++) {
		char name[64];
		snprintf(name, sizeof name, "%s-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x", sliced() ? "MIG" : "GPU", i);
		*d = &devices[i];
		if (!strcmp(name, uuid)) return NVML_SUCCESS;
	}
	return NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now, unsigned int *next) {
	*now = *next = sliced();
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
	unsigned long long used = setting("STANDIN_USED", d - devices, 0);
	unsigned long long all = setting("STANDIN_MEMORY", d - devices, CAPACITY);
	*m = (nvmlMemory_t){all, all - used, used};
	return NVML_SUCCESS;
}

// TELL stores a value, unless the GPU does not tell.
#define TELL(to, value) \
	if (sliced()) return NVML_ERROR_NOT_SUPPORTED; \
	*to = value; \
	return NVML_SUCCESS;

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *energy) {
	static unsigned long long millijoules;
	TELL(energy, millijoules += 500)
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *power){
	TELL(power, 300250 + (d - devices))} nvmlReturn_t
	nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *clock){TELL(clock,
		type == NVML_CLOCK_SM        ? 1980
			: type == NVML_CLOCK_MEM ? 3201
									 : 0)} nvmlReturn_t
	nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t sensor, unsigned int *t){TELL(t, 41)} nvmlReturn_t
	nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *held) {
	TELL(held, setting("STANDIN_HELD", 0, 0))
}
