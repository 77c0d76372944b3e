// The instruction sets that inner loops are written for.
#ifndef RESTYLE_LEVEL_H
#define RESTYLE_LEVEL_H

// Each level has what the one before it has, on its own kind of machine.
enum {
	CPU_PORTABLE,   // what any C compiler makes of the loops
	CPU_NEON,       // arm64
	CPU_AVX2,       // with FMA and F16C
	CPU_AVX512,     // F, BW, DQ, VL
	CPU_AVX512BF16, // with dot products of bf16
	CPU_AMX,        // with tiles of bf16
	CPU_LEVELS
};

// cpu_best is the highest level that this machine and its kernel let a program use.
int cpu_best(void);

// cpu_level is the level that operations use. It is cpu_best() unless cpu_set_level has set another.
int cpu_level(void);

// cpu_set_level has operations use a level from now on. Returns 0 when this machine cannot run it.
int cpu_set_level(int level);

#endif
