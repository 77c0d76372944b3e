package main

// maxRSS is what getrusage counts in, in bytes.
func maxRSS(n int64) int64 { return n << 10 }
