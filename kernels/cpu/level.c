#include "level.h"

#include <stdatomic.h>

#include "gemm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)

static unsigned long long xcr0(void) {
	unsigned lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (unsigned long long)hi << 32 | lo;
}

// amx_allowed requests the tile registers: Linux saves them only for programs that have requested them.
static int amx_allowed(void) {
#if defined(__linux__)
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
	return 0;
#endif
}

static int find_best(void) {
	unsigned a, b, c, d, b7, c7, d7, a71 = 0;
	if (!__get_cpuid(1, &a, &b, &c, &d)) return CPU_PORTABLE;
	int osxsave = c >> 27 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
	if (!osxsave || !fma || !f16c || (xcr0() & 0x6) != 0x6) return CPU_PORTABLE;
	if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !(b7 >> 5 & 1)) return CPU_PORTABLE;
	if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
	int avx512 = (b7 >> 16 & 1) && (b7 >> 17 & 1) && (b7 >> 30 & 1) && (b7 >> 31 & 1);
	if (!avx512 || (xcr0() & 0xE6) != 0xE6) return CPU_AVX2;
	if (!(a71 >> 5 & 1) || !(c7 >> 11 & 1)) return CPU_AVX512;
	int amx = (d7 >> 22 & 1) && (d7 >> 24 & 1) && (d7 >> 25 & 1) && (xcr0() & 0x60000) == 0x60000;
	return amx && amx_allowed() ? CPU_AMX : CPU_AVX512BF16;
}

static int find_byte_dots(void) {
	unsigned a, b, c, d;
	return cpu_best() >= CPU_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
}

#elif defined(__aarch64__)
static int find_best(void) { return CPU_NEON; }
#else
static int find_best(void) { return CPU_PORTABLE; }
#endif

#if !defined(__x86_64__)
static int find_byte_dots(void) { return 0; }
#endif

enum { UNKNOWN, NO, YES };
static _Atomic int best_plus_one, fastest_plus_one, level_plus_one, byte_dots;

int cpu_best(void) {
	int b = atomic_load(&best_plus_one);
	if (b == 0) {
		b = find_best() + 1;
		atomic_store(&best_plus_one, b);
	}
	return b - 1;
}

int cpu_fastest(void) {
	int f = atomic_load(&fastest_plus_one);
	if (f == 0) {
		int best = cpu_best();
		f = 1 + (best == CPU_AVX512BF16 && !gemm_dots_pay() ? CPU_AVX512 : best);
		atomic_store(&fastest_plus_one, f);
	}
	return f - 1;
}

int cpu_level(void) {
	int l = atomic_load(&level_plus_one);
	return l == 0 ? cpu_fastest() : l - 1;
}

int cpu_set_level(int level) {
	if (level < 0 || level > cpu_best() || (level == CPU_NEON && cpu_best() != CPU_NEON)) return 0;
	atomic_store(&level_plus_one, level + 1);
	return 1;
}

int cpu_byte_dots(void) {
	int found = atomic_load(&byte_dots);
	if (found == UNKNOWN) { // asked once: on a virtual machine, the host answers cpuid, which takes microseconds
		found = find_byte_dots() ? YES : NO;
		atomic_store(&byte_dots, found);
	}
	return found == YES;
}

void cpu_use_byte_dots(int use) { atomic_store(&byte_dots, use ? UNKNOWN : NO); }
