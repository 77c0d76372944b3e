package hub

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"restyle/internal/disk"
)

// errDamaged means that the bytes of a cached file do not match its name.
var errDamaged = errors.New("the cached file is damaged")

// unsettled is how long after one change of a file its times may not show another: file systems have steps of up to 2
// s.
var unsettled = 2 * time.Second

// cached returns the path of a file, and no error if it is there with the expected size and hash. It follows all links:
// a user may keep parts of the cache on another disk, and Python may share blobs between repositories. If the file is
// absent or has another size, the error is fs.ErrNotExist; if it has another hash, errDamaged. A file without a known
// hash (offline, in a snapshot without links) is not checked.
//
// Hashing takes about a second per gigabyte, so cached hashes a good file again only after it has changed:
// verified/<etag> holds what stateOf returned then. No program can set back the time of a file's last change.
func (r repo) cached(ctx context.Context, name string, f File) (local string, err error) {
	local = filepath.Join(r.dir, filepath.FromSlash(name))
	info, err := os.Stat(local)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return local, fs.ErrNotExist
	}
	want := f.etag()
	if !isHex(want, 40) && !isHex(want, 64) {
		return local, nil
	}
	state, changed, err := stateOf(local)
	if err != nil {
		return local, fmt.Errorf("cannot read the cache: %w", err)
	}
	record := "verified/" + want
	if old, err := disk.ReadInput(filepath.Join(r.dir, record), maxNote); err == nil && string(old) == state {
		return local, nil
	}
	file, err := disk.OpenInput(local)
	if err != nil {
		return local, fmt.Errorf("cannot read the cache: %w", err)
	}
	defer file.Close()
	sum := f.newHash()
	if _, err := copyHash(ctx, sum, file, f.Size); err != nil {
		return local, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return local, fmt.Errorf("%w: the hash of %s is %s, but the listing has %s", errDamaged, local, got, want)
	}
	if time.Since(changed) >= unsettled {
		// This only saves time, and a cache that cannot be written is still good to read.
		if root, err := disk.OpenRoot(r.dir); err == nil {
			replace(root, record, []byte(state))
			root.Close()
		}
	}
	return local, nil
}

// stateOf returns a line that changes if a program changes the file: its size, time of modification, time of the last
// change and inode. It also returns the third of these.
func stateOf(path string) (line string, changed time.Time, err error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return "", changed, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	changed = time.Unix(s.Ctim.Unix())
	return fmt.Sprintln(s.Size, s.Mtim.Nano(), changed.UnixNano(), s.Ino), changed, nil
}

// copyHash feeds sum from r until its end, but stops after more than limit bytes. It returns the number of bytes.
func copyHash(ctx context.Context, sum hash.Hash, r io.Reader, limit int64) (done int64, err error) {
	for n, chunk := int64(1), int64(16<<20); n > 0 && done <= limit; done += n {
		if n, err = io.CopyN(sum, r, chunk); ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if err != nil && err != io.EOF {
			return done, fmt.Errorf("cannot read the cache: %w", err)
		}
	}
	return done, nil
}
