package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A Listing lists the files of a repository at one commit.
type Listing struct {
	Ref Ref
	// Commit is the commit of Ref.Revision, 40 hex digits. Fetch uses it for every file.
	Commit string
	// Files are sorted by path.
	Files []File
}

// A File is one file of a repository.
type File struct {
	// Path is relative, with slashes, and safe to join to a directory.
	Path string
	// Size is in bytes.
	Size int64
	// BlobID is the hash of the git blob, 40 hex digits. For a file in large-file storage it is the pointer's hash.
	BlobID string
	// SHA256 is the content's hash, 64 hex digits, for files in large-file storage; empty for others.
	SHA256 string
}

// etag returns the file's ETag on the hub, which is also the name of its blob in the cache.
func (f File) etag() string { return firstOf(f.SHA256, f.BlobID) }

// File returns the file of that path.
func (l Listing) File(name string) (File, bool) {
	i := slices.IndexFunc(l.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return File{}, false
	}
	return l.Files[i], true
}

// Match returns the files that match at least one pattern, sorted by path. Patterns have the syntax of path.Match.
// One without a slash is matched against the base name, so "*.parquet" matches in every directory.
func (l Listing) Match(patterns ...string) ([]File, error) {
	var files []File
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %q of file names: %w", p, err)
		}
	}
	for _, f := range l.Files {
		if slices.ContainsFunc(patterns, func(p string) bool {
			name := f.Path
			if !strings.Contains(p, "/") {
				name = path.Base(name)
			}
			ok, _ := path.Match(p, name)
			return ok
		}) {
			files = append(files, f)
		}
	}
	return files, nil
}

// Limits of the hub's responses.
const (
	maxAnswer  = 64 << 20 // bytes of one decompressed JSON response
	maxListing = 256 << 20
	maxPages   = 1000 // the hub puts 1000 files on a page
)

// Resolve returns the commit and the files of ref. Offline it uses the commit that the cache recorded for the
// revision, and the listing stored with it or, without one, the files that are there. The listing of a commit never
// changes, so a stored one saves the request online as well.
func (h *Hub) Resolve(ctx context.Context, ref Ref) (l Listing, err error) {
	defer h.scrubError(&err)
	if err := ref.check(); err != nil {
		return Listing{}, err
	}
	repo, err := h.repo(ref)
	if err != nil {
		return Listing{}, err
	}
	if h.Offline {
		return repo.offline(ref)
	}
	commit, files, err := h.list(ctx, ref, repo)
	if err != nil {
		if _, e := repo.offline(ref); e == nil && Retryable(err) {
			err = fmt.Errorf("%w; set HF_HUB_OFFLINE=1 to use the files in the cache", err)
		}
		return Listing{}, fmt.Errorf("%s: %w", ref, err)
	}
	return Listing{ref, commit, files}, nil
}

// list asks the hub for the commit and the files of ref.
func (h *Hub) list(ctx context.Context, ref Ref, repo repo) (commit string, files []File, err error) {
	endpoint, err := h.endpoint()
	if err != nil {
		return "", nil, err
	}
	api := endpoint.String() + "/api/" + string(ref.Kind) + "s/" + ref.ID
	if commit = ref.Revision; !isHex(commit, 40) {
		data, _, err := h.ask(ctx, ref, api+"/revision/"+url.PathEscape(ref.Revision))
		if err != nil {
			return "", nil, err
		}
		var info struct{ SHA string }
		if err := json.Unmarshal(data, &info); err != nil {
			return "", nil, notJSON(data, err)
		}
		if commit = info.SHA; !isHex(commit, 40) {
			return "", nil, fmt.Errorf("the hub names commit %.50q: must be 40 hex digits", commit)
		}
	}
	if files, err := repo.readTree(commit); err == nil {
		return commit, files, nil
	}
	if files, err = h.tree(ctx, ref, api+"/tree/"+commit); err != nil {
		return "", nil, err
	}
	// This only saves a request the next time, and tells which files are missing when offline. If the cache cannot be
	// written, Fetch reports that when it has to.
	repo.writeTree(commit, files)
	return commit, files, nil
}

// tree reads a listing page by page.
func (h *Hub) tree(ctx context.Context, ref Ref, base string) ([]File, error) {
	var files []File
	query, seen, total := "recursive=true", map[string]bool{}, 0
	for query != "" {
		if seen[query] || len(seen) == maxPages {
			return nil, fmt.Errorf("the listing does not end: stopped after %d pages and %d files", len(seen), len(files))
		}
		seen[query] = true
		data, header, err := h.ask(ctx, ref, base+"?"+query)
		if err != nil {
			return nil, err
		}
		if total += len(data); total > maxListing {
			return nil, fmt.Errorf("the listing is larger than %d MiB", maxListing>>20)
		}
		page, err := parseTree(data)
		if err != nil {
			return nil, err
		}
		files = append(files, page...)
		if query, err = nextPage(header); err != nil {
			return nil, err
		}
	}
	return sorted(files)
}

// sorted sorts files by path. A path that occurs twice is an error, because either could be wrong.
func sorted(files []File) ([]File, error) {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(files); i++ {
		if files[i].Path == files[i-1].Path {
			return nil, fmt.Errorf("the listing names %.300q twice", files[i].Path)
		}
	}
	return files, nil
}

// parseTree reads one page of the hub's tree API: an array of files and directories. It reads entries one at a time and
// stops at the first bad one, so that allocations stay proportional to data.
func parseTree(data []byte) ([]File, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, notJSON(data, errors.Join(err, errors.New("must be an array of files")))
	}
	var files []File
	for dec.More() {
		var entry struct {
			Type, Path, OID string
			Size            *int64
			LFS             *struct {
				OID  string
				Size *int64
			}
		}
		if err := dec.Decode(&entry); err != nil {
			return nil, notJSON(data, err)
		}
		if entry.Type != "file" && entry.Type != "directory" {
			return nil, fmt.Errorf("the listing has an entry of type %.50q: must be file or directory", entry.Type)
		}
		if entry.Type == "directory" {
			continue
		}
		f := File{Path: entry.Path, Size: -1, BlobID: entry.OID}
		size := entry.Size
		if entry.LFS != nil {
			f.SHA256, size = firstOf(entry.LFS.OID, "none"), entry.LFS.Size
		}
		if size != nil {
			f.Size = *size
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON(data, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, notJSON(data, errors.New("more follows the array"))
	}
	return files, nil
}

func (f File) check() error {
	switch why := wrongPath(f.Path); {
	case why != "":
		return fmt.Errorf("the listing names a file %.300q: %s", f.Path, why)
	case f.Size < 0:
		return fmt.Errorf("the listing has no size of %.300q, or a negative one", f.Path)
	case !isHex(f.BlobID, 40):
		return fmt.Errorf("the listing gives %.300q the git hash %.100q: must be 40 hex digits", f.Path, f.BlobID)
	case f.SHA256 != "" && !isHex(f.SHA256, 64):
		return fmt.Errorf("the listing gives %.300q the sha256 %.100q: must be 64 hex digits", f.Path, f.SHA256)
	}
	return nil
}

// nextPage returns the query of the next page from a Link header (RFC 8288), "" if there is none. It uses only the
// query, so the next page comes from the same address as the first, whatever the header says.
func nextPage(header http.Header) (string, error) {
	for _, link := range header.Values("Link") {
		for part := range strings.SplitSeq(link, "<") {
			target, params, ok := strings.Cut(part, ">")
			if !ok || !strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=next") {
				continue
			}
			u, err := url.Parse(target)
			if err != nil || u.RawQuery == "" {
				return "", fmt.Errorf("the listing's next page %.200q is not a URL with a query", target)
			}
			return u.RawQuery, nil
		}
	}
	return "", nil
}

// notJSON returns an error for a response that is not JSON. Usually it is the web page of a proxy or a login.
func notJSON(data []byte, err error) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return errors.New("the hub answered with a web page instead of JSON: check HF_ENDPOINT, and for a proxy or a login " +
			"page in between")
	}
	return fmt.Errorf("the hub's answer is not the expected JSON: %.300s", err) // which may quote a number of any length
}
