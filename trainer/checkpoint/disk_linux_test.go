package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/disk"
	"restyle/internal/expect"
)

// mount mounts a file system over an empty directory.
func mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skip("cannot mount a file system: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	const pages = 64 // tmpfs allocates whole pages; a checkpoint here takes a dozen of them
	size := pages * os.Getpagesize()
	root := filepath.Join(mount(t, 0, fmt.Sprint("size=", size)), "checkpoints")
	write(t, root, 1)
	large := content(2)
	large["model.safetensors"] = strings.Repeat("x", size)
	err := Write(root, 2, filler(large))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	expect.Error(t, err, Dir(root, 2), "no space left", "the disk was full after", " MiB are free", "free some space")
	if got := names(t, root); len(got) != 1 {
		t.Error("there is", got)
	}
	found, err := Latest(root)
	if err != nil || found.Step != 1 {
		t.Error(found, err)
	}

	free, err := disk.Free(filepath.Join(root, "not", "yet"))
	if err != nil || free <= 0 || free >= int64(size) {
		t.Error(free, err)
	}
	if err := Room(root, free); err != nil {
		t.Error(err)
	}
	expect.Error(t, Room(root, 1<<30), root, "needs 1024.0 MiB", inMiB(free)+" are free", "free some space")
}

func TestReadOnly(t *testing.T) {
	root := mount(t, syscall.MS_RDONLY, "")
	expect.Error(t, Write(filepath.Join(root, "checkpoints"), 1, filler(content(1))), root, "read-only",
		"choose a directory")
	expect.Error(t, Write(root, 1, filler(content(1))), root, "read-only", "choose a directory")
	_, err := Lock(root)
	expect.Error(t, err, root, "read-only", "choose a directory")
	if _, err := Latest(root); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestNoDirectory puts a file in the place of a directory.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	overwrite(t, file, nil)
	for _, root := range []string{file, filepath.Join(file, "checkpoints")} {
		expect.Error(t, Write(root, 1, filler(content(1))), file, "not a directory")
		_, err := Latest(root)
		expect.Error(t, err, file, "not a directory")
		_, err = Keep(root, 1)
		expect.Error(t, err, file, "not a directory")
	}
	if data, err := os.ReadFile(file); err != nil || len(data) != 0 {
		t.Error(err)
	}
}
