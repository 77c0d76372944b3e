// A Key is an id and, in the lower half, its row. In sorted order, the rows of an id are adjacent and in their order,
// and no two keys are equal. An id of -1 stands for none, and comes last.
#pragma once

typedef unsigned long long Key;
inline Key keyOf(int id, int row) { return (Key)(unsigned)id << 32 | (unsigned)row; }
inline int idOf(Key key) { return key >> 32; }
inline int rowOf(Key key) { return (int)key; }
