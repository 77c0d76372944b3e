package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"restyle/internal/disk"
)

// A Cache is a directory of compiled programs, one file each, that any number of processes may share. A file never
// changes; a damaged one is written again. The directory may be deleted at any time.
type Cache struct {
	Dir string // "" stores nothing
}

// DefaultCache returns the directory that RESTYLE_CACHE names, or restyle in the user's cache directory.
func DefaultCache() Cache {
	if dir := os.Getenv("RESTYLE_CACHE"); dir != "" {
		return Cache{dir}
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}
	}
	return Cache{filepath.Join(dir, "restyle")}
}

// Compile returns c.Compile's image, or the one that it returned in an earlier run for the same source, headers,
// options and GPU with the same compiler. If the directory cannot be written to, only time is lost.
func (cache Cache) Compile(c *Compiler, p Program, arch string) ([]byte, error) {
	root, err := cache.open()
	if err != nil {
		return nil, err
	}
	if root == nil {
		image, _, err := c.Compile(p, arch)
		return image, err
	}
	defer root.Close()
	name := strings.TrimSuffix(filepath.Base(p.Name), filepath.Ext(p.Name))
	file := fmt.Sprintf("%s-%s-%x.cubin", name, arch, key(c, p, arch))
	if image, ok := read(root, file); ok {
		return image, nil
	}
	image, _, err := c.Compile(p, arch)
	if err == nil {
		_ = disk.WriteIn(root, file, sealed(image), 0o600)
	}
	return image, err
}

// open opens the directory, which it creates if it is missing. It returns nil if there can be none. What is in it is
// run, so it is an error if another user can write there.
func (cache Cache) open() (*os.Root, error) {
	if cache.Dir == "" {
		return nil, nil
	}
	if err := disk.MakeDir(cache.Dir, 0o700); err != nil && !errors.Is(err, disk.ErrUntrusted) {
		return nil, nil
	}
	root, err := disk.OpenOwn(cache.Dir)
	if err != nil {
		return nil, fmt.Errorf("compiled code: %w: name a directory that only you can write in RESTYLE_CACHE, or take the "+
			"right to write from others with chmod go-w", err)
	}
	return root, nil
}

// sealed returns the file for an image. The checksum comes after the image, so that tools for images can read the file.
func sealed(image []byte) []byte {
	sum := sha256.Sum256(image)
	return append(slices.Clone(image), sum[:]...)
}

// unsealed returns the image in a file, if the file is intact.
func unsealed(file []byte) (image []byte, ok bool) {
	if len(file) <= sha256.Size {
		return nil, false
	}
	image, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	want := sha256.Sum256(image)
	return image, bytes.Equal(sum, want[:])
}

// maxImage is the maximum size of a file, in bytes.
const maxImage = 256 << 20

// read returns the image in a file, if the file is intact and no other user can have written it.
func read(root *os.Root, name string) (image []byte, ok bool) {
	file, err := disk.ReadOwn(root, name, maxImage)
	if err != nil {
		return nil, false
	}
	return unsealed(file)
}

// key returns a hash of all that the image depends on. Each part is preceded by its length, so that different parts
// never give the same input.
func key(c *Compiler, p Program, arch string) [sha256.Size]byte {
	parts := []string{"1", c.identity(), p.Name, p.Source, arch}
	for _, h := range slices.Sorted(maps.Keys(p.Headers)) {
		parts = append(parts, h, p.Headers[h])
	}
	parts = append(parts, p.options(arch)...)
	var b []byte
	for _, part := range parts {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// identity tells compilers apart by version and file size, because two patches of a version report the same version.
func (c *Compiler) identity() string {
	return fmt.Sprintf("NVRTC %d.%d, %d bytes", c.Major, c.Minor, fileSize(c.Path))
}

// fileSize returns 0 if the file is inaccessible.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
