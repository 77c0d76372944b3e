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

// errDamaged is the error of a cached file whose bytes are not those that its name stands for.
var errDamaged = errors.New("the cached file is damaged")

// unsettled is how long after a change of a file its times may not show another: file systems count in steps of up to 2 s.
var unsettled = 2 * time.Second

// cached gives the path of a file, and no error if it is there with the size and hash that it should have, through links of any kind: a
// user may keep parts of the cache on another disk, and Python may share blobs between repositories. A file that is absent
// or of another size is an fs.ErrNotExist, one of another hash errDamaged. A file without a known hash (offline, in a
// snapshot without links) is taken as it is.
//
// Hashing takes about a second for each gigabyte, so a file that was right is hashed again only when it has changed since:
// verified/<etag> holds what stateOf gave then. No program can set back a file's time of the last change.
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
	if old, err := disk.ReadInput(filepath.Join(r.dir, record)); err == nil && string(old) == state {
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
		return local, fmt.Errorf("%w: the hash of %s is %s where the listing has %s", errDamaged, local, got, want)
	}
	if time.Since(changed) >= unsettled {
		// Only to save time: a cache that cannot be written serves all the same.
		if root, err := os.OpenRoot(r.dir); err == nil {
			replace(root, record, []byte(state))
			root.Close()
		}
	}
	return local, nil
}

// stateOf returns what changes if a program changes the file: its size, time of modification, time of the last change and
// inode, as a line; and the third of them.
func stateOf(path string) (line string, changed time.Time, err error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return "", changed, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	changed = time.Unix(s.Ctim.Unix())
	return fmt.Sprintln(s.Size, s.Mtim.Nano(), changed.UnixNano(), s.Ino), changed, nil
}

// copyHash feeds sum from r until its end, or until it has had more than most bytes. It returns how many it had.
func copyHash(ctx context.Context, sum hash.Hash, r io.Reader, most int64) (done int64, err error) {
	for n, chunk := int64(1), int64(16<<20); n > 0 && done <= most; done += n {
		if n, err = io.CopyN(sum, r, chunk); ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if err != nil && err != io.EOF {
			return done, fmt.Errorf("cannot read the cache: %w", err)
		}
	}
	return done, nil
}
