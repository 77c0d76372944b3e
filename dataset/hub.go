package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"restyle/hf/hub"
	"restyle/internal/disk"
)

// extensions are the extensions of data files. All but parquet may be packed, with .gz, .zst or .bz2 after it.
var extensions = []string{".parquet", ".jsonl", ".json", ".ndjson", ".csv", ".tsv"}

// extension returns the extension of a data file in lower case, without the extension of a packing, or "" if it is not
// a data file. A packed file that does not say what it is may be one: ".gz" represents all of these.
func extension(name string) string {
	bare := unpackedName(name)
	switch ext := strings.ToLower(path.Ext(bare)); {
	case slices.Contains(extensions, ext) && (bare == name || ext != ".parquet"):
		return ext
	case bare != name:
		return ".gz"
	}
	return ""
}

// looksLikeHubID distinguishes "owner/name" from a path that does not exist.
func looksLikeHubID(spec string) bool {
	_, err := hub.ParseRef(hub.Dataset, spec)
	return err == nil && strings.Contains(spec, "/") && extension(spec) == ""
}

// cutConfig separates the name of a config from the name of a dataset: "owner/name:config" or
// "owner/name:config/split". Neither ids nor revisions have a colon.
func cutConfig(spec string) (bare, config string) {
	if at := strings.LastIndex(spec, ":"); at > 0 {
		return spec[:at], spec[at+1:]
	}
	return spec, ""
}

// local returns the path of the file or directory that a spec names, or "" if it names none, and the config after it.
func local(spec string) (path, config string, isDir bool) {
	info, err := os.Stat(spec)
	if err == nil {
		return spec, "", info.IsDir()
	}
	if bare, config := cutConfig(spec); errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Stat(bare); err == nil && info.IsDir() {
			return bare, config, true
		}
		return "", "", false
	}
	return spec, "", false // to open it says what is wrong
}

// LocalPath returns the path of the file or directory that spec names, as [Open] reads it, or "" if it names a dataset
// on the hub or the embedded one.
func LocalPath(spec string) string {
	if spec == StarterSpec {
		return ""
	}
	path, _, _ := local(spec)
	return path
}

// HasSplits reports whether spec may name a dataset that has splits: one on the hub or in a directory.
func HasSplits(spec string) bool {
	path, _, isDir := local(spec)
	return spec != StarterSpec && (path == "" || isDir)
}

// A repository has the files of a dataset: on the hub, or in a directory.
type repository struct {
	name     string
	paths    []string // sorted, relative, with slashes
	fetch    func(path string) (local string, err error)
	revision func(files []string) (string, error)
	parquet  string   // the spec of the hub's own copy in parquet, if there may be one
	apart    []string // Options.Apart that are in it, as paths are
}

// openHub reads the files of one split. It fetches each file only when the reader reaches it, but the dataset's card at
// once: the card says which files a split has.
func openHub(ctx context.Context, spec, config string, o Options, w wanted) (*Source, error) {
	ref, err := hub.ParseRef(hub.Dataset, spec)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	h := o.Hub
	if h == nil {
		h = hub.FromEnv()
	}
	listing, err := h.Resolve(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("dataset: there is no file %s, and on the hub: %w", spec, err)
	}
	r := &repository{
		name:     ref.ID,
		fetch:    func(path string) (string, error) { return h.Fetch(ctx, listing, path) },
		revision: func([]string) (string, error) { return listing.Commit, nil },
		parquet:  ref.ID + "@refs/convert/parquet",
	}
	if ref.Revision != "main" {
		r.parquet = ""
	}
	for _, f := range listing.Files {
		r.paths = append(r.paths, f.Path)
	}
	return r.open(ctx, config, o, w)
}

// openDirectory reads the files of one split of a directory, laid out as on the hub.
func openDirectory(ctx context.Context, dir, config string, o Options, w wanted) (*Source, error) {
	full, err := filepath.Abs(dir) // "." has no name
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	r := &repository{
		name:  filepath.Base(full),
		fetch: func(path string) (string, error) { return filepath.Join(dir, filepath.FromSlash(path)), nil },
	}
	r.revision = func(files []string) (string, error) {
		all := sha256.New()
		for _, path := range files {
			local, err := r.fetch(path)
			if err != nil {
				return "", err
			}
			sum, err := digest(ctx, local)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(all, "%q %s\n", path, sum)
		}
		return hex.EncodeToString(all.Sum(nil)), nil
	}
	err = disk.WalkDir(dir, func(local string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || local != dir && isRun(local)):
			return fs.SkipDir
		case isLog(local):
			return nil
		}
		path, err := filepath.Rel(dir, local)
		if err != nil {
			return err
		}
		if info, err := os.Stat(local); err == nil && info.Mode().IsRegular() { // also one that a link leads to
			r.paths = append(r.paths, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	for _, file := range o.Apart {
		if path, inside := pathIn(full, file); inside {
			r.apart = append(r.apart, path)
		}
	}
	return r.open(ctx, config, o, w)
}

// maxRun is more bytes than the run.json of a run has.
const maxRun = 16 << 20

// isRun reports whether a directory is a run directory of train, in which no file has rows.
func isRun(dir string) bool {
	var run struct{ Identity map[string]string }
	text, err := disk.ReadInput(filepath.Join(dir, "run.json"), maxRun)
	return err == nil && json.Unmarshal(text, &run) == nil && run.Identity != nil
}

// isLog reports whether a file is the log that train and bench write into the working directory.
func isLog(file string) bool {
	if filepath.Base(file) != "benchmark_log.csv" {
		return false
	}
	f, err := disk.OpenInput(file)
	if err != nil {
		return false
	}
	defer f.Close()
	const columns = "Timestamp,Mode,Wall_Time_s,"
	head := make([]byte, len(columns))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == columns
}

// pathIn returns the path of a file that is in a directory, or shall be, relative to it and with slashes.
func pathIn(dir, file string) (path string, inside bool) {
	real := func(dir string) string {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
		return dir
	}
	abs, err := filepath.Abs(file)
	if err != nil || file == "" {
		return "", false
	}
	rel, err := filepath.Rel(real(dir), filepath.Join(real(filepath.Dir(abs)), filepath.Base(abs)))
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

// open opens the files of a split: the split in the options, or one that follows the config.
func (r *repository) open(ctx context.Context, config string, o Options, w wanted) (*Source, error) {
	config, split, own := strings.Cut(config, "/")
	if !own {
		split = o.Split
	}
	chosen, err := choose(r.paths, r.read, config, split)
	if own {
		chosen.suffix = ":" + config + "/" + split
	}
	var several *configError
	if errors.As(err, &several) {
		return nil, fmt.Errorf("dataset: %s: %w, as %s:%s", r.name, err, r.name, several.names[0])
	}
	if errors.Is(err, errNoTable) && r.parquet != "" {
		return nil, fmt.Errorf("dataset: %s: %w. The hub may have a copy in parquet: %s", r.name, err, r.parquet)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", r.name, err)
	}
	if err := r.keptApart(config, split, chosen.files); err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", r.name, err)
	}
	revision, err := r.revision(chosen.files)
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", r.name, err)
	}
	var parts []part
	for _, path := range chosen.files {
		parts = append(parts, part{path, func(w wanted) (*table, error) {
			local, err := r.fetch(path)
			if err != nil {
				return nil, err
			}
			return openFile(ctx, local, w)
		}})
	}
	return newSource(r.name+chosen.suffix, revision, o, w, parts)
}

// keptApart returns an error if a split of these files would have one that is to be apart, once that is there.
func (r *repository) keptApart(config, split string, files []string) error {
	for _, path := range r.apart {
		if !slices.Contains(r.paths, path) {
			with, err := choose(append(slices.Clone(r.paths), path), r.read, config, split)
			if err != nil {
				continue
			}
			files = with.files
		}
		if slices.Contains(files, path) {
			return &SettingError{"split", fmt.Errorf("%s would be read as its rows: put that into another directory, or name "+
				"the files of the split", path)}
		}
	}
	return nil
}

// read returns the content of a file that describes the dataset.
func (r *repository) read(path string) (string, error) {
	local, err := r.fetch(path)
	if err != nil {
		return "", &SettingError{"split", fmt.Errorf("%s says which files belong to a split: %w; or name the files as "+
			"the split", path, err)}
	}
	data, err := disk.ReadInput(local, disk.MaxRecord)
	return string(data), err
}
