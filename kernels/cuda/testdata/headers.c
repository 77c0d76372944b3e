// Compiles only where api.h says of every function and value what NVIDIA's headers say.
#include <cuda.h>
#include <nvrtc.h>

#include "../api.h"

#define SAME(name, value) _Static_assert(name == value, #name);
CONSTANTS(SAME)

#define IS_DRIVER(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(*) parameters), #name);
DRIVER(IS_DRIVER)

#define IS_COMPILER(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), nvrtcResult(*) parameters), #name);
COMPILER(IS_COMPILER)

_Static_assert(__builtin_types_compatible_p(__typeof__(&nvrtcGetErrorString), const char *(*)(nvrtcResult)), "text");
