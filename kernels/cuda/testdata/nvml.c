// Compiles only where nvml_api.h says of every function and value what NVIDIA's header says.
#include <nvml.h>

#include "../nvml_api.h"

#define SAME(name, value) _Static_assert(name == value, #name);
NVML_CONSTANTS(SAME)

#define IS_NVML(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), nvmlReturn_t(*) parameters), #name);
NVML(IS_NVML)

_Static_assert(__builtin_types_compatible_p(__typeof__(&nvmlErrorString), const char *(*)(nvmlReturn_t)), "text");

typedef nvmlReturn_t (*reasons)(nvmlDevice_t, unsigned long long *);
_Static_assert(__builtin_types_compatible_p(__typeof__(&nvmlDeviceGetCurrentClocksEventReasons), reasons), "reasons");
_Static_assert(
	__builtin_types_compatible_p(__typeof__(&nvmlDeviceGetCurrentClocksThrottleReasons), reasons), "reasons");
