//go:build !linux

package kernels

// wantLargePages does nothing where the system decides alone.
func wantLargePages([]byte) {}
