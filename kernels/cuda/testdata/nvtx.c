// Compiles only where nvtx_api.h says of every function, value and field what NVIDIA's header says.
#define nvtxEventAttributes_t our_attributes
#define nvtxDomainHandle_t our_domain
#define NVTX_MESSAGE_TYPE_ASCII OUR_ASCII
#include "../nvtx_api.h"
#undef nvtxEventAttributes_t
#undef nvtxDomainHandle_t
#undef NVTX_MESSAGE_TYPE_ASCII

#include <nvtx3/nvToolsExt.h>
#include <stddef.h>

#define SAME(name, value) _Static_assert((int)name == value, #name);
NVTX_CONSTANTS(SAME)

#define IS_NVTX(type, name, parameters) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), type(*) parameters), #name);
NVTX(IS_NVTX)

#define FIELD(name) \
	_Static_assert(offsetof(our_attributes, name) == offsetof(nvtxEventAttributes_t, name), #name); \
	_Static_assert(sizeof((our_attributes){0}.name) == sizeof((nvtxEventAttributes_t){0}.name), #name);
FIELD(version)
FIELD(size)
FIELD(category)
FIELD(colorType)
FIELD(color)
FIELD(payloadType)
FIELD(reserved0)
FIELD(payload)
FIELD(messageType)
FIELD(message.ascii)
_Static_assert(sizeof(our_attributes) == sizeof(nvtxEventAttributes_t), "size");
