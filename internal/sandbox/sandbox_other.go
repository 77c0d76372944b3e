//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"fmt"
	"os/exec"
	"runtime"
)

// Command returns ErrUnavailable.
func Command(Options) (*exec.Cmd, error) {
	return nil, fmt.Errorf("%w: it needs Linux on amd64 or arm64, and this is %s on %s", ErrUnavailable, runtime.GOOS,
		runtime.GOARCH)
}

// Start returns ErrUnavailable.
func Start(c *exec.Cmd) error {
	_, err := Command(Options{})
	return err
}

// Memory returns 0.
func Memory(pid, limit int) int { return 0 }

// Refused returns nil, because no command runs.
func Refused(error, string) error { return nil }

// Hide does nothing.
func Hide() (show func()) { return func() {} }

// Groups makes no groups.
type Groups struct{}

// Group does not exist.
type Group struct{}

// NewGroups returns a Groups that makes none.
func NewGroups(int) *Groups { return &Groups{} }

// Put returns nil.
func (*Groups) Put(int) *Group { return nil }

// Close does nothing.
func (*Groups) Close() {}

// Exceeded returns false.
func (*Group) Exceeded() bool { return false }

// Close does nothing.
func (*Group) Close() {}
