package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// repo is one repository's folder in the cache, laid out as huggingface_hub lays it out:
//
//	blobs/<etag>                   contents; the ETag is a sha256 or a git blob hash
//	blobs/<etag>.incomplete        a download under way or broken off
//	snapshots/<commit>/<path>      a relative symlink to the blob
//	refs/<revision>                the commit that a branch or tag stood for when last asked
//	trees/<commit>.json            the listing of a commit
//	verified/<etag>                what a blob's size and times were when its hash was right; restyle's own
//
// Locks are beside it, in .locks/<folder>/<etag>.lock. Python's .no_exist, which remembers files that a repository
// lacks, is neither read nor written: a listing says it better. Files get the permissions of the umask, as Python's
// do, since several users may share a cache.
type repo struct {
	dir   string
	locks string
}

func (h *Hub) repo(ref Ref) (repo, error) {
	if h.Cache == "" {
		return repo{}, errors.New("no cache directory for hub files: set HF_HUB_CACHE or HF_HOME")
	}
	cache, err := filepath.Abs(h.Cache)
	if err != nil {
		return repo{}, fmt.Errorf("hub cache: %w", err)
	}
	folder := string(ref.Kind) + "s--" + strings.ReplaceAll(ref.ID, "/", "--")
	return repo{filepath.Join(cache, folder), filepath.Join(cache, ".locks", folder)}, nil
}

// snapshot is the path of a file within the folder.
func snapshot(commit, name string) string { return "snapshots/" + commit + "/" + name }

// offline lists ref from the cache alone.
func (r repo) offline(ref Ref) (Listing, error) {
	commit := ref.Revision
	if !isHex(commit, 40) {
		data, err := os.ReadFile(filepath.Join(r.dir, "refs", filepath.FromSlash(ref.Revision)))
		if commit = strings.TrimSpace(string(data)); err != nil || !isHex(commit, 40) {
			return Listing{}, fmt.Errorf("%s is not in the cache %s, and offline (--offline, HF_HUB_OFFLINE) nothing is fetched: fetch it once without that", ref, r.dir)
		}
	}
	files, err := r.readTree(commit)
	if err != nil {
		files, err = r.walk(commit)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("%s: %w", ref, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "snapshots", commit)); err != nil {
		return Listing{}, fmt.Errorf("%s: commit %s is not in the cache %s, and offline (--offline, HF_HUB_OFFLINE) nothing is fetched: fetch it once without that", ref, commit, r.dir)
	}
	return Listing{ref, commit, files}, nil
}

// walk lists the files of a snapshot that are there, for caches without trees.
func (r repo) walk(commit string) ([]File, error) {
	root := filepath.Join(r.dir, "snapshots", commit)
	var files []File
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(full)
		if err != nil || !info.Mode().IsRegular() {
			return nil // a link whose blob was deleted
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		f := File{Path: filepath.ToSlash(name), Size: info.Size()}
		if target, err := os.Readlink(full); err == nil {
			switch blob := filepath.Base(target); {
			case isHex(blob, 64):
				f.SHA256 = blob
			case isHex(blob, 40):
				f.BlobID = blob
			}
		}
		if wrongPath(f.Path) == "" {
			files = append(files, f)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the caller says it better
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the cache: %w", err)
	}
	return sorted(files)
}

// tree is the form of trees/<commit>.json in huggingface_hub 2.
type tree struct {
	Version int                 `json:"format_version"`
	Files   map[string]treeFile `json:"files"`
}

type treeFile struct {
	Size    int64  `json:"size"`
	BlobID  string `json:"blob_id"`
	SHA256  string `json:"lfs_sha256,omitempty"`
	LFSSize int64  `json:"lfs_size,omitempty"`
}

func (r repo) readTree(commit string) ([]File, error) {
	name := filepath.Join(r.dir, "trees", commit+".json")
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxListing {
		return nil, fmt.Errorf("%s is longer than %d MiB", name, maxListing>>20)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var t tree
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.Version != 1 || t.Files == nil {
		return nil, fmt.Errorf("%s has format version %d; want 1", name, t.Version)
	}
	files := make([]File, 0, len(t.Files))
	for name, entry := range t.Files {
		f := File{name, entry.Size, entry.BlobID, entry.SHA256}
		if f.SHA256 != "" {
			f.Size = entry.LFSSize
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return sorted(files)
}

func (r repo) writeTree(commit string, files []File) error {
	t := tree{1, make(map[string]treeFile, len(files))}
	for _, f := range files {
		entry := treeFile{Size: f.Size, BlobID: f.BlobID, SHA256: f.SHA256}
		if f.SHA256 != "" {
			entry.LFSSize = f.Size
		}
		t.Files[f.Path] = entry
	}
	data, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	root, err := r.open()
	if err != nil {
		return err
	}
	defer root.Close()
	return replace(root, "trees/"+commit+".json", data)
}

// forget drops a stored listing that a file turned out not to fit, so that it is asked for again.
func forget(root *os.Root, commit string) { root.Remove("trees/" + commit + ".json") }

// open gives the folder as what everything is written through, so that neither a name nor a link leads out of it.
func (r repo) open() (*os.Root, error) {
	if err := os.MkdirAll(filepath.Join(r.dir, "blobs"), 0o777); err != nil {
		return nil, err
	}
	return os.OpenRoot(r.dir)
}

// record stores the commit that the listing's revision stood for. It comes after a fetch, so that offline a revision
// stands for a commit of which something is there.
func record(root *os.Root, l Listing) error {
	name := "refs/" + l.Ref.Revision
	if l.Ref.Revision == l.Commit {
		return nil
	}
	if old, err := root.ReadFile(name); err == nil && string(old) == l.Commit {
		return nil
	}
	return replace(root, name, []byte(l.Commit))
}

// replace writes a whole file that others see either as it was or as it is now.
func replace(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	return disk.WriteIn(root, name, data, 0o666)
}

// link makes name in a snapshot a link to its blob. Where the file system has no links the blob itself moves there, as
// Python does it.
func link(root *os.Root, blob, name string) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	target := strings.Repeat("../", strings.Count(name, "/")) + blob
	err := root.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) { // of a blob that was deleted, or something else
		if err = root.Remove(name); err == nil {
			err = root.Symlink(target, name)
		}
	}
	if err != nil {
		return disk.RenameIn(root, blob, name)
	}
	return disk.SyncDirIn(root, path.Dir(name))
}
