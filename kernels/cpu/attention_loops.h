#include "attention_block.h"
#include "attention_forward.h"
#include "attention_backward.h"
