package hub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"restyle/internal/disk"
)

// lock waits for the lock of a blob, which is the one that Python's filelock takes. It leaves the file there,
// because filelock does not notice that a file was removed. On a file system without locks, two downloads at once may
// damage the part that they share. Its hash shows that, and a damaged file never gets a name.
func (r repo) lock(ctx context.Context, etag string) (*disk.File, error) {
	if err := disk.MakeDir(r.locks, 0o777); err != nil {
		return nil, fmt.Errorf("cannot write the cache: %w", err)
	}
	f, err := disk.LockWait(ctx, filepath.Join(r.locks, etag+".lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("waiting for another download of the same file: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the cache: %w", err)
	}
	f.Chmod(0o664) // its owner sets this, whatever the umask: users of one group who share a cache wait for each other
	return f, nil
}
