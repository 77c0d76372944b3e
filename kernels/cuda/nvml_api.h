// The part of NVML, NVIDIA's library of meters, that is used. As in api.h, names, types and values are NVIDIA's own,
// and a test compares them with its header.
#ifndef RESTYLE_CUDA_NVML_API_H
#define RESTYLE_CUDA_NVML_API_H

// NVML_CONSTANTS(X) lists values: X(name, value).
#define NVML_CONSTANTS(X) \
	X(NVML_SUCCESS, 0) \
	X(NVML_ERROR_NOT_SUPPORTED, 3) \
	X(NVML_CLOCK_SM, 1) \
	X(NVML_CLOCK_MEM, 2) \
	X(NVML_TEMPERATURE_GPU, 0) \
	X(NVML_DEVICE_MIG_ENABLE, 1) \
	X(nvmlClocksEventReasonSwPowerCap, 0x04) \
	X(nvmlClocksThrottleReasonHwSlowdown, 0x08) \
	X(nvmlClocksEventReasonSwThermalSlowdown, 0x20) \
	X(nvmlClocksThrottleReasonHwThermalSlowdown, 0x40) \
	X(nvmlClocksThrottleReasonHwPowerBrakeSlowdown, 0x80)

#ifndef NVML_API_VERSION // the test takes the types from NVIDIA's header
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

// Enumerations are passed as int, which has their size.
typedef int nvmlReturn_t;
typedef int nvmlClockType_t;
typedef int nvmlTemperatureSensors_t;

enum {
#define VALUE(name, value) name = value,
	NVML_CONSTANTS(VALUE)
#undef VALUE
};
#endif

// NVML(X) lists the functions of libnvidia-ml that every driver has: X(name, parameters), each returning nvmlReturn_t.
// Not in the list are nvmlErrorString, which returns text, and the function for what holds the clocks back, which has
// two names.
#define NVML(X) \
	X(nvmlInit_v2, (void)) \
	X(nvmlDeviceGetCount_v2, (unsigned int *count)) \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device)) \
	X(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device)) \
	X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned int *current, unsigned int *pending)) \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory)) \
	X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *energy)) \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int *power)) \
	X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)) \
	X(nvmlDeviceGetTemperature, (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *temperature))

#endif
