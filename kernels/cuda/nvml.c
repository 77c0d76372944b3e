// libnvidia-ml: a GPU's meters.
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "monitor.h"
#include "nvml_api.h"

typedef struct {
#define FIELD(name, parameters) nvmlReturn_t (*name) parameters;
	NVML(FIELD)
#undef FIELD
	const char *(*nvmlErrorString)(nvmlReturn_t);
	nvmlReturn_t (*heldBackBy)(nvmlDevice_t device, unsigned long long *reasons);
} nvml;

uintptr_t cuda_open_nvml(const char *path, char *message, int size) {
	void *library = open_library(path, message, size);
	if (!library) return 0;
	nvml *n = calloc(1, sizeof *n);
	const char *missing = NULL;
#define LOOKUP(name, parameters) \
	if (!(n->name = (nvmlReturn_t(*) parameters)dlsym(library, #name))) missing = #name;
	NVML(LOOKUP)
#undef LOOKUP
	if (!(n->nvmlErrorString = (const char *(*)(nvmlReturn_t))dlsym(library, "nvmlErrorString")))
		missing = "nvmlErrorString";
	void *held = dlsym(library, "nvmlDeviceGetCurrentClocksEventReasons");
	if (!held) held = dlsym(library, "nvmlDeviceGetCurrentClocksThrottleReasons"); // before driver 535
	if (!(n->heldBackBy = (nvmlReturn_t(*)(nvmlDevice_t, unsigned long long *))held))
		missing = "nvmlDeviceGetCurrentClocksEventReasons";
	if (missing) {
		snprintf(message, size, "it has no %s: the driver is too old", missing);
		free(n);
		return 0;
	}
	nvmlReturn_t r = n->nvmlInit_v2();
	if (r != NVML_SUCCESS) {
		snprintf(message, size, "%s", n->nvmlErrorString(r));
		free(n);
		return 0;
	}
	return (uintptr_t)n;
}

uintptr_t cuda_find_meters(uintptr_t nvml_, const char *uuid, char *message, int size) {
	nvml *n = (nvml *)nvml_;
	nvmlDevice_t device = NULL;
	nvmlReturn_t r = n->nvmlDeviceGetHandleByUUID(uuid, &device);
	if (r == NVML_SUCCESS) return (uintptr_t)device;
	snprintf(message, size, "%s", n->nvmlErrorString(r));
	return 0;
}

cuda_meters cuda_read_meters(uintptr_t nvml_, uintptr_t gpu) {
	nvml *n = (nvml *)nvml_;
	nvmlDevice_t device = (nvmlDevice_t)gpu;
	cuda_meters m = {-1, -1, -1, -1, -1, -1, -1, -1};
	unsigned long long wide;
	unsigned int value;
	nvmlMemory_t memory;
	if (!n->nvmlDeviceGetTotalEnergyConsumption(device, &wide)) m.energy = wide;
	if (!n->nvmlDeviceGetPowerUsage(device, &value)) m.power = value;
	if (!n->nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &value)) m.sm = value;
	if (!n->nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, &value)) m.memory = value;
	if (!n->nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value)) m.temperature = value;
	if (!n->heldBackBy(device, &wide)) m.held = wide;
	if (!n->nvmlDeviceGetMemoryInfo(device, &memory)) {
		m.free = memory.free;
		m.used = memory.used;
	}
	return m;
}

int cuda_sliced(uintptr_t nvml_) {
	nvml *n = (nvml *)nvml_;
	unsigned int count, current, pending;
	int sliced = 0;
	nvmlDevice_t device;
	if (n->nvmlDeviceGetCount_v2(&count)) return 0;
	for (unsigned int i = 0; i < count; i++) {
		if (!n->nvmlDeviceGetHandleByIndex_v2(i, &device) && !n->nvmlDeviceGetMigMode(device, &current, &pending))
			sliced += current == NVML_DEVICE_MIG_ENABLE;
	}
	return sliced;
}
