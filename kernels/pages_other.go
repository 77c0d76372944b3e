//go:build !linux

package kernels

// wantLargePages does nothing: the system decides.
func wantLargePages([]byte) {}
