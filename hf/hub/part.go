package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"restyle/internal/disk"
)

// part is a file that is being downloaded, with the hash of its bytes so far.
type part struct {
	*disk.Pending
	file   File
	sum    hash.Hash
	done   int64
	joined bool   // has bytes of more than one response
	etag   string // of the response that the bytes came with, "" if unknown
}

// openPart opens or creates the part of a blob, and hashes the bytes that an earlier download left there.
func openPart(ctx context.Context, root *os.Root, blob string, f File) (*part, error) {
	file, err := disk.Resume(root, blob+".incomplete", blob, 0o666)
	if err != nil {
		return nil, fmt.Errorf("cannot write the cache: %w", err)
	}
	p := &part{Pending: file, file: f}
	p.sum = f.newHash()
	if p.done, err = copyHash(ctx, p.sum, file, f.Size); err == nil && p.done > f.Size {
		err = p.reset()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	p.joined = p.done > 0
	return p, nil
}

// newHash returns sha256 for content in large-file storage, and git's hash of a blob for other files.
func (f File) newHash() hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", f.Size)
	return sum
}

func (p *part) hash() string { return hex.EncodeToString(p.sum.Sum(nil)) }

func (p *part) append(b []byte) error {
	n, err := p.Write(b)
	p.sum.Write(b[:n])
	p.done += int64(n)
	return err
}

// reset empties the part, to start over.
func (p *part) reset() error {
	if err := p.Truncate(0); err != nil {
		return err
	}
	_, err := p.Seek(0, io.SeekStart)
	p.sum = p.file.newHash()
	p.done = 0
	p.joined = false
	p.etag = ""
	return err
}
