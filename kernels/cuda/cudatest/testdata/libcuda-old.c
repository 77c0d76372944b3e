// A stand-in for a driver of CUDA 11.0, which lacks most of what is used.
int cuDriverGetVersion(int *v) { *v = 11000; return 0; }
