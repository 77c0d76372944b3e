// The instruction sets for which inner loops are compiled.
#ifndef RESTYLE_LEVEL_H
#define RESTYLE_LEVEL_H

// Each level includes the one before it, on its own kind of machine.
enum {
	CPU_PORTABLE,   // what any C compiler makes of the loops
	CPU_NEON,       // arm64
	CPU_AVX2,       // with FMA and F16C
	CPU_AVX512,     // F, BW, DQ, VL; on some machines dot products of bytes (VNNI): see cpu_byte_dots
	CPU_AVX512BF16, // with dot products of bf16 and of bytes (VNNI)
	CPU_AMX,        // with tiles of bf16 and of bytes
	CPU_LEVELS
};

// cpu_best returns the highest level that this machine and its operating system support.
int cpu_best(void);

// cpu_fastest returns the level that is the fastest here: cpu_best(), or AVX512 where that is AVX512BF16 with dot
// products that are slower than multiply-adds, which is timed when it is first asked. Intel's processors that have AMX,
// shown to this program or not, compute dot products of bf16 at half the rate of fp32, AMD's at twice the rate.
int cpu_fastest(void);

// cpu_level returns the level that operations use: cpu_fastest() unless cpu_set_level has set another.
int cpu_level(void);

// cpu_byte_dots returns whether the level AVX512 has dot products of bytes here, as on Cascade Lake and Ice Lake. Sums
// of integers are the same with and without them. cpu_use_byte_dots sets whether they are used.
int cpu_byte_dots(void);
void cpu_use_byte_dots(int use);

// cpu_set_level sets the level of operations. It returns 0 if this machine does not support it.
int cpu_set_level(int level);

#endif
