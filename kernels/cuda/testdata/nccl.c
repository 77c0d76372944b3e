// Compiles only where nccl_api.h says of every function and value what NVIDIA's header says.
#include <cuda.h>
#include <nccl.h>

#include "../nccl_api.h"

#define SAME(name, value) _Static_assert((int)name == value, #name);
NCCL_CONSTANTS(SAME)

#define IS_NCCL(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), ncclResult_t(*) parameters), #name);
NCCL(IS_NCCL)

_Static_assert(sizeof(ncclUniqueId) == 128, "size");
_Static_assert(__builtin_types_compatible_p(__typeof__(&ncclGetErrorString), const char *(*)(ncclResult_t)), "text");
_Static_assert(__builtin_types_compatible_p(__typeof__(&ncclGetLastError), const char *(*)(ncclComm_t)), "last");
