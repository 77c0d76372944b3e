package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"restyle/internal/disk"
)

// fetchable are the suffixes of files that Fetch downloads. Pickles (.bin, .pt, .pkl) and code run when they are
// loaded, and nothing here needs them.
var fetchable = []string{".safetensors", ".gguf", ".json", ".jsonl", ".ndjson", ".parquet", ".csv", ".tsv", ".jinja",
	".model", ".txt", ".md", ".yaml"}

// mayFetch reports whether Fetch downloads a file of this name: one that is fetchable, or packed.
func mayFetch(name string) bool {
	name = strings.ToLower(name)
	switch ext := path.Ext(name); ext {
	case ".gz", ".zst", ".bz2":
		name = strings.TrimSuffix(name, ext)
	}
	return slices.Contains(fetchable, path.Ext(name))
}

// Fetch downloads a file of a listing, unless it is in the cache, and returns its local path. It resumes an interrupted
// download, also one of another process. The file gets its name only if its size and hash match the listing. If several
// processes fetch the same file, one downloads it and the others wait.
//
// Fetch also checks the hash of a file that it finds in the cache: once, and again whenever the file has changed. If
// it is damaged, Fetch downloads it again; offline that is an error.
func (h *Hub) Fetch(ctx context.Context, l Listing, name string) (local string, err error) {
	defer h.scrubError(&err)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", name, l.Ref, err)
		}
	}()
	f, ok := l.File(name)
	switch {
	case !ok:
		return "", errors.New("the listing has no such file")
	case !isHex(l.Commit, 40):
		return "", fmt.Errorf("commit %.50q of the listing: must be 40 hex digits", l.Commit)
	case wrongPath(name) != "":
		return "", fmt.Errorf("not a file name: %s", wrongPath(name))
	case !mayFetch(name):
		return "", fmt.Errorf("not downloaded: only %s files are, and those with .gz after it, never pickles or code",
			strings.Join(fetchable, " "))
	}
	if err := l.Ref.check(); err != nil {
		return "", err
	}
	r, err := h.repo(l.Ref)
	if err != nil {
		return "", err
	}
	pointer := snapshot(l.Commit, name)
	local, err = r.cached(ctx, pointer, f)
	switch {
	case err == nil && h.Offline:
		return local, nil
	case errors.Is(err, fs.ErrNotExist) && h.Offline:
		return "", r.missing()
	case errors.Is(err, errDamaged) && h.Offline:
		return "", fmt.Errorf("%w, and offline (HF_HUB_OFFLINE) nothing is downloaded: download it again online", err)
	case err == nil:
		// A cache that cannot be written is still good to read.
		if root, err := disk.OpenRoot(r.dir); err == nil {
			record(root, l)
			root.Close()
		}
		return local, nil
	case errors.Is(err, errDamaged):
		damage := err
		defer func() {
			if err != nil {
				err = fmt.Errorf("%w, and downloading it again failed: %w", damage, err)
			}
		}()
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if err := f.check(); err != nil {
		return "", err
	}
	root, err := r.open()
	if err != nil {
		return "", fmt.Errorf("cannot write the cache: %w", err)
	}
	defer root.Close()
	lock, err := r.lock(ctx, f.etag())
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := r.cached(ctx, pointer, f); err != nil {
		blob := "blobs/" + f.etag()
		if _, err := r.cached(ctx, blob, f); err != nil {
			if err := h.download(ctx, root, l, f, blob); err != nil {
				return "", err
			}
		}
		if err := link(root, blob, pointer); err != nil {
			return "", fmt.Errorf("cannot write the cache: %w", err)
		}
	}
	if err := record(root, l); err != nil {
		return "", fmt.Errorf("cannot write the cache: %w", err)
	}
	return local, nil
}

// download downloads a file's content to the blob of that name, complete and checked.
func (h *Hub) download(ctx context.Context, root *os.Root, l Listing, f File, blob string) error {
	p, err := openPart(ctx, root, blob, f)
	if err != nil {
		return err
	}
	defer p.Close()
	for again := false; ; again = true {
		if err := enoughSpace(p.Name(), f.Size-p.done); err != nil {
			return err
		}
		err := h.retry(ctx, func(answered func()) (int64, error) {
			before := p.done
			err := h.fill(ctx, root, l, f, p, answered)
			return p.done - before, err
		})
		if err != nil {
			return err
		}
		want, got := firstOf(f.SHA256, f.BlobID), p.hash()
		if got == want {
			break
		}
		// Parts of different responses may not fit together: an interrupted download may be old, or another program's.
		if !p.joined || again {
			p.Discard()
			forget(root, l.Commit)
			return fmt.Errorf("damaged: its hash is %s, but the listing has %s; the download was deleted: try again", got, want)
		}
		if err := p.reset(); err != nil {
			return err
		}
	}
	if err := p.Commit(); err != nil {
		return diskError(err, f.Size)
	}
	return nil
}

// fill sends one request for the missing bytes, and appends the response.
func (h *Hub) fill(ctx context.Context, root *os.Root, l Listing, f File, p *part, answered func()) error {
	if p.done == f.Size {
		return nil
	}
	endpoint, err := h.endpoint()
	if err != nil {
		return err
	}
	address := endpoint.String() + "/"
	if l.Ref.Kind == Dataset {
		address += "datasets/"
	}
	address += l.Ref.ID + "/resolve/" + l.Commit
	for piece := range strings.SplitSeq(f.Path, "/") {
		address += "/" + url.PathEscape(piece)
	}
	// Ranges and lengths of a compressed response would count compressed bytes.
	header := http.Header{"Accept-Encoding": {"identity"}}
	if p.done > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", p.done))
		if p.etag != "" {
			header.Set("If-Range", p.etag)
		}
	}
	a, err := h.get(ctx, address, header, answered)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := contradicts(a.hub, l, f); err != nil {
		forget(root, l.Commit)
		return err
	}
	length := a.ContentLength
	switch a.StatusCode {
	case http.StatusOK:
		if length >= 0 && length != f.Size {
			return fmt.Errorf("the hub offers %d bytes, but its listing has %d: try again, or check for a proxy in between",
				length, f.Size)
		}
		if err := p.reset(); err != nil { // the server ignored the range
			return err
		}
	case http.StatusPartialContent:
		var first, last, total int64
		n, _ := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
		if n < 2 || first != p.done || n == 3 && total != f.Size {
			asked := p.done
			return errors.Join(p.reset(), transient{error: fmt.Errorf("asked for the bytes from %d on, but got %.100q", asked,
				a.Header.Get("Content-Range"))})
		}
		p.joined = p.joined || p.done > 0
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(p.reset(), transient{error: errors.New("the server has no bytes after those of the interrupted " +
			"download")})
	default:
		return h.refused(a, l.Ref)
	}
	if enc := a.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("the server compresses it (%.50s) although asked not to: check for a proxy in between", enc)
	}
	p.etag = a.Header.Get("ETag")
	if !strings.HasPrefix(p.etag, `"`) {
		p.etag = "" // a weak one does not identify bytes
	}
	return h.receive(a, f, p)
}

// receive appends the body of a response to the part.
func (h *Hub) receive(a *answer, f File, p *part) error {
	report := func() {
		if h.Progress != nil {
			h.Progress(Progress{f.Path, p.done, f.Size})
		}
	}
	report()
	buf := make([]byte, 256<<10)
	for {
		n, err := a.Read(buf)
		if int64(n) > f.Size-p.done {
			return errors.Join(p.reset(), fmt.Errorf("the server sends more than the %d bytes of the listing: try again, or "+
				"check for a proxy in between", f.Size))
		}
		if n > 0 {
			if err := p.append(buf[:n]); err != nil {
				return diskError(err, f.Size-p.done)
			}
			report()
		}
		switch {
		case err == io.EOF && p.done == f.Size:
			return nil
		case err != nil:
			return transient{error: fmt.Errorf("the download broke off after %d of %d bytes: %w", p.done, f.Size, err)}
		}
	}
}

// contradicts compares the hub's headers for the file that it sends, or redirects to, with the listing, to find a wrong
// file before downloading it. Missing headers, as from mirrors, contradict nothing.
func contradicts(hub http.Header, l Listing, f File) error {
	tag := strings.Trim(strings.TrimPrefix(hub.Get("X-Linked-Etag"), "W/"), `"`)
	for _, c := range []struct{ what, got, want string }{
		{"commit", hub.Get("X-Repo-Commit"), l.Commit},
		{"size", hub.Get("X-Linked-Size"), fmt.Sprint(f.Size)},
		{"hash", tag, f.etag()},
	} {
		if c.got != "" && c.got != c.want {
			return fmt.Errorf("the hub sends a file of %s %.100q, but its listing has %s: list it again", c.what, c.got, c.want)
		}
	}
	return nil
}

// enoughSpace compares the bytes that are still missing with the free space of the disk.
func enoughSpace(path string, need int64) error {
	dir := filepath.Dir(path)
	if free, err := disk.Free(dir); err == nil && need > free {
		return fmt.Errorf("needs %d more bytes, but %s has %d free: free some space, or set HF_HUB_CACHE to another disk",
			need, dir, free)
	}
	return nil // if the free space is unknown, writing will tell
}

// diskError adds the free space to an error of writing, for a disk that filled up meanwhile.
func diskError(err error, need int64) error {
	var at *fs.PathError
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && errors.As(err, &at) {
		dir := filepath.Dir(at.Path)
		free, _ := disk.Free(dir)
		return fmt.Errorf("needs %d more bytes, but %s has %d free: free some space and run again, the bytes so far are "+
			"kept: %w", need, dir, free, err)
	}
	return fmt.Errorf("cannot write the cache: %w", err)
}
