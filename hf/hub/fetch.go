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

// fetchable are the endings of the files that may be fetched. Pickles (.bin, .pt, .pkl) and code run when they are
// loaded and are never wanted here.
var fetchable = []string{".safetensors", ".json", ".jsonl", ".parquet", ".jinja", ".model", ".txt", ".md"}

// Fetch gives the local path of a file of a listing, downloading it unless it is in the cache. A download that broke off
// goes on where it stopped, in this process or the next. The file is there only when its size and hash are those of the
// listing. Of several processes that fetch one file, one downloads and the others wait for it.
//
// The hash of a file found in the cache is checked too, once, and again when the file has changed since. A damaged one is
// downloaded again; offline it is an error.
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
		return "", fmt.Errorf("the listing's commit %.50q is not 40 hex digits", l.Commit)
	case wrongPath(name) != "":
		return "", fmt.Errorf("unfit as a file name: %s", wrongPath(name))
	case !slices.Contains(fetchable, strings.ToLower(path.Ext(name))):
		return "", fmt.Errorf("not fetched: only %s files are, never pickles or code", strings.Join(fetchable, " "))
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
		return "", fmt.Errorf("not in the cache %s, and offline (--offline, HF_HUB_OFFLINE) nothing is fetched: fetch it once without that", r.dir)
	case errors.Is(err, errDamaged) && h.Offline:
		return "", fmt.Errorf("%w, and offline (--offline, HF_HUB_OFFLINE) nothing is fetched: fetch it again without that", err)
	case err == nil:
		// A cache that cannot be written serves all the same.
		if root, err := os.OpenRoot(r.dir); err == nil {
			record(root, l)
			root.Close()
		}
		return local, nil
	case errors.Is(err, errDamaged):
		damage := err
		defer func() {
			if err != nil {
				err = fmt.Errorf("%w, and it could not be fetched again: %w", damage, err)
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

// download brings a file's content under the name blob, complete and checked.
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
		err := retry(ctx, func() (int64, error) {
			before := p.done
			err := h.fill(ctx, root, l, f, p)
			return p.done - before, err
		})
		if err != nil {
			return err
		}
		want, got := firstOf(f.SHA256, f.BlobID), p.hash()
		if got == want {
			break
		}
		// Pieces of different answers may not fit together: the part may be of another time, or of another program.
		if !p.joined || again {
			p.Discard()
			forget(root, l.Commit)
			return fmt.Errorf("damaged: its hash is %s where the listing has %s; the download was deleted, try again", got, want)
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

// fill sends one request for what the part lacks and appends what comes.
func (h *Hub) fill(ctx context.Context, root *os.Root, l Listing, f File, p *part) error {
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
	// Ranges and lengths of a compressed answer would count other bytes.
	header := http.Header{"Accept-Encoding": {"identity"}}
	if p.done > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", p.done))
		if p.etag != "" {
			header.Set("If-Range", p.etag)
		}
	}
	a, err := h.get(ctx, address, header)
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
			return fmt.Errorf("the hub offers %d bytes where its listing has %d: try again, or look whether a proxy is in between", length, f.Size)
		}
		if err := p.reset(); err != nil { // the range was not honoured
			return err
		}
	case http.StatusPartialContent:
		var first, last, total int64
		n, _ := fmt.Sscanf(a.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
		if n < 2 || first != p.done || n == 3 && total != f.Size {
			asked := p.done
			return errors.Join(p.reset(), transient{error: fmt.Errorf("asked for the bytes from %d on, got %.100q", asked, a.Header.Get("Content-Range"))})
		}
		p.joined = p.joined || p.done > 0
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(p.reset(), transient{error: errors.New("the server has no bytes where the download broke off")})
	default:
		return h.refused(a, l.Ref)
	}
	if enc := a.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("the server sends it compressed (%.50s) though asked not to: look whether a proxy is in between", enc)
	}
	p.etag = a.Header.Get("ETag")
	if !strings.HasPrefix(p.etag, `"`) {
		p.etag = "" // a weak one cannot vouch for bytes
	}
	return h.receive(a, f, p)
}

// receive appends the answer's body to the part.
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
			return errors.Join(p.reset(), fmt.Errorf("the server sends more than the %d bytes of the listing: try again, or look whether a proxy is in between", f.Size))
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

// contradicts compares what the hub says of the file that it sends, or redirects to, with the listing, so that a wrong
// one is found before it is downloaded. Headers that are missing, as mirrors leave them out, contradict nothing.
func contradicts(hub http.Header, l Listing, f File) error {
	tag := strings.Trim(strings.TrimPrefix(hub.Get("X-Linked-Etag"), "W/"), `"`)
	for _, c := range []struct{ what, got, want string }{
		{"commit", hub.Get("X-Repo-Commit"), l.Commit},
		{"size", hub.Get("X-Linked-Size"), fmt.Sprint(f.Size)},
		{"hash", tag, f.etag()},
	} {
		if c.got != "" && c.got != c.want {
			return fmt.Errorf("the hub sends a file of %s %.100q where its listing has %s: list it again", c.what, c.got, c.want)
		}
	}
	return nil
}

// enoughSpace compares what is still to come with what the disk has free.
func enoughSpace(path string, need int64) error {
	dir := filepath.Dir(path)
	if free, err := disk.Free(dir); err == nil && need > free {
		return fmt.Errorf("needs %d more bytes and %s has %d free: free some space, or set HF_HUB_CACHE to another disk", need, dir, free)
	}
	return nil // where it is not known, it will show when writing
}

// diskError explains an error of writing, above all that of a disk that filled up on the way.
func diskError(err error, need int64) error {
	var at *fs.PathError
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && errors.As(err, &at) {
		dir := filepath.Dir(at.Path)
		free, _ := disk.Free(dir)
		return fmt.Errorf("needs %d more bytes and %s has %d free: free some space and run again, what came so far is kept: %w", need, dir, free, err)
	}
	return fmt.Errorf("cannot write the cache: %w", err)
}
