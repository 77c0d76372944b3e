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

// repo is the directory of a repository in the cache, in the layout of huggingface_hub:
//
//	blobs/<etag>                   contents; the ETag is a sha256 or a git blob hash
//	blobs/<etag>.incomplete        a download in progress, or an interrupted one
//	snapshots/<commit>/<path>      a relative symlink to the blob
//	refs/<revision>                the commit of a branch or tag when the hub was last asked
//	trees/<commit>.json            the listing of a commit
//	verified/<etag>                size and times of a blob when its hash was right; only restyle has these
//
// Locks are next to it, in .locks/<directory>/<etag>.lock. The package neither reads nor writes Python's .no_exist,
// which remembers files that a repository lacks, because a listing is more reliable. The umask sets the permissions of
// files, as in Python, because several users may share a cache.
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

// maxNote is the largest size of a file that holds one line: a commit, a state, a token.
const maxNote = 64 << 10

// snapshot returns the path of a file within the directory.
func snapshot(commit, name string) string { return "snapshots/" + commit + "/" + name }

// offline lists ref from the cache only.
func (r repo) offline(ref Ref) (Listing, error) {
	commit := ref.Revision
	if !isHex(commit, 40) {
		data, err := disk.ReadInput(filepath.Join(r.dir, "refs", filepath.FromSlash(ref.Revision)), maxNote)
		if commit = strings.TrimSpace(string(data)); err != nil || !isHex(commit, 40) {
			return Listing{}, fmt.Errorf("%s: %w", ref, r.missing())
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
		return Listing{}, fmt.Errorf("%s: commit %s: %w", ref, commit, r.missing())
	}
	return Listing{ref, commit, files}, nil
}

// missing is the error if the cache lacks something, offline.
func (r repo) missing() error {
	return fmt.Errorf("not in the cache %s, and offline (HF_HUB_OFFLINE) nothing is downloaded: download it once online",
		r.dir)
}

// walk lists the files of a snapshot that are there, for caches without trees.
func (r repo) walk(commit string) ([]File, error) {
	root := filepath.Join(r.dir, "snapshots", commit)
	var files []File
	err := disk.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
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
		err = nil // the caller reports it
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the cache: %w", err)
	}
	return sorted(files)
}

// tree is the content of trees/<commit>.json in huggingface_hub 2.
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
	data, err := disk.ReadInput(name, maxListing)
	if err != nil {
		return nil, err
	}
	var t tree
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if t.Version != 1 || t.Files == nil {
		return nil, fmt.Errorf("%s: format version %d: must be 1", name, t.Version)
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

// forget deletes a stored listing if a file turned out not to match it, so that the next Resolve asks the hub.
func forget(root *os.Root, commit string) { root.Remove("trees/" + commit + ".json") }

// open opens the directory as an os.Root, through which everything is written, so that neither names nor links can lead
// out of it.
func (r repo) open() (*os.Root, error) {
	if err := disk.MakeDir(filepath.Join(r.dir, "blobs"), 0o777); err != nil {
		return nil, err
	}
	return disk.OpenRoot(r.dir)
}

// record stores the commit of the listing's revision. It runs after a download, so that offline a revision refers to a
// commit of which the cache has files.
func record(root *os.Root, l Listing) error {
	name := "refs/" + l.Ref.Revision
	if l.Ref.Revision == l.Commit {
		return nil
	}
	if old, err := disk.ReadInputIn(root, name, maxNote); err == nil && string(old) == l.Commit {
		return nil
	}
	return replace(root, name, []byte(l.Commit))
}

// replace writes a whole file. Others see either its old content or its new one.
func replace(root *os.Root, name string, data []byte) error {
	if err := disk.MakeDirIn(root, path.Dir(name), 0o777); err != nil {
		return err
	}
	return disk.WriteIn(root, name, data, 0o666)
}

// link makes name in a snapshot a link to its blob. If the file system has no links it moves the blob there, as Python
// does.
func link(root *os.Root, blob, name string) error {
	if err := disk.MakeDirIn(root, path.Dir(name), 0o777); err != nil {
		return err
	}
	target := strings.Repeat("../", strings.Count(name, "/")) + blob
	err := root.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) { // a link to a deleted blob, or something else
		if err = root.Remove(name); err == nil {
			err = root.Symlink(target, name)
		}
	}
	if err != nil {
		return disk.RenameIn(root, blob, name)
	}
	return disk.SyncDirIn(root, path.Dir(name))
}
