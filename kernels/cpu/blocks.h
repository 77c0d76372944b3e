// Blocks of GGUF files; package gguf has their layout.
#ifndef RESTYLE_BLOCKS_H
#define RESTYLE_BLOCKS_H

#include <stdint.h>

// cpu_quantize_blocks codes blocks of 256 elements as Q4_K, Q5_K or Q6_K, by their bits, on the calling thread.
void cpu_quantize_blocks(uint8_t *dst, const float *x, int64_t blocks, int bits);

#endif
