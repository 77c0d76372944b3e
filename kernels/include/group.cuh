// The products of experts: along z, a thread block's product is for one expert, whose rows are the rows from
// offsets[blockIdx.z] to offsets[blockIdx.z + 1]. op_experts_grouped.go describes it.
//
//   GROUPED   1: these are rows of a and c. 2: these are the depth, rows of a and b as they are stored.
#pragma once

#ifdef GROUPED
#define FIND_GROUP                                                                           \
	{                                                                                          \
		const long long first = offsets[blockIdx.z], count = offsets[blockIdx.z + 1] - first;    \
		a += first * aRow;                                                                       \
		if (GROUPED == 1) c += first * cRow, m = (int)count;                                     \
		else b += first * bRow, depth = (int)count;                                              \
		if (row >= m) return;                                                                    \
	}
#else
#define FIND_GROUP
#endif
