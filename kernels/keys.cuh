// A Key is an id, and below it the row that has it: sorted, rows of one id lie together and in their order, and no two are alike. An id
// of -1 is none, and comes after all.
#pragma once

typedef unsigned long long Key;
inline Key keyOf(int id, int row) { return (Key)(unsigned)id << 32 | (unsigned)row; }
inline int idOf(Key key) { return key >> 32; }
inline int rowOf(Key key) { return (int)key; }
