package dataset

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"restyle/hf/hub"
)

// extensions are those of data files, the preferred ones first. All but parquet may be packed, with .gz after it.
var extensions = []string{".parquet", ".jsonl", ".json", ".csv", ".tsv"}

// extension returns the extension of a data file in lower case, without .gz, or "" if it is none. A file that is packed
// with gzip and does not say what it is may be one.
func extension(name string) string {
	name = strings.ToLower(name)
	bare := strings.TrimSuffix(name, ".gz")
	switch ext := path.Ext(bare); {
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

// openHub reads the files of one split in the order of their names. It fetches each file only when the reader reaches
// it.
func openHub(ctx context.Context, spec string, o Options, w wanted) (*Source, error) {
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
	var names []string
	for _, f := range listing.Files {
		names = append(names, f.Path)
	}
	chosen, err := splitFiles(names, o.Split)
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", spec, err)
	}
	var parts []part
	for _, name := range chosen {
		parts = append(parts, part{name, func(w wanted) (*table, error) {
			local, err := h.Fetch(ctx, listing, name)
			if err != nil {
				return nil, err
			}
			return openFile(ctx, local, w)
		}})
	}
	return newSource(ref.ID, listing.Commit, o, w, parts)
}

// notData are files that describe a repository and hold no rows.
var notData = []string{"dataset_infos.json", "dataset_dict.json", "dataset_info.json", "state.json", "croissant.json"}

// splitWords are the names of splits in file names.
var splitWords = []string{"train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval",
	"evaluation"}

// splitFiles returns the files of a split. split may also be the path of a file, or "directory/split". A file belongs
// to a split if its path contains the split's name as a word (data/train-00000-of-00001.parquet). If no file names a
// split, all belong to "train". splitFiles prefers parquet to JSONL, JSONL to JSON, JSON to CSV and CSV to TSV, packed
// with gzip or not, and does not mix formats.
func splitFiles(paths []string, split string) ([]string, error) {
	if split == "" {
		split = "train"
	}
	if slices.Contains(paths, split) {
		return []string{split}, nil
	}
	dir, word := path.Split(split)
	var data []string
	for _, ext := range extensions {
		for _, p := range paths {
			if strings.HasPrefix(p, dir) && extension(p) == ext && !slices.Contains(notData, path.Base(p)) {
				data = append(data, p)
			}
		}
		if data != nil {
			break
		}
	}
	if data == nil {
		return nil, fmt.Errorf("the repository has no parquet, JSONL, JSON or CSV file%s (it has %s): convert it, or name "+
			"another", in(dir), list(paths))
	}
	named := slices.DeleteFunc(slices.Clone(data), func(p string) bool {
		return !hasWord(strings.TrimPrefix(p, dir),
			word)
	})
	anyNamed := slices.ContainsFunc(data, func(p string) bool {
		return slices.ContainsFunc(splitWords, func(w string) bool { return hasWord(strings.TrimPrefix(p, dir), w) })
	})
	if len(named) == 0 && word == "train" && !anyNamed {
		named = data
	}
	if len(named) == 0 {
		return nil, &SettingError{"split", fmt.Errorf("no file belongs to the split %q%s: choose one of %s as the split",
			word, in(dir), list(data))}
	}
	dirs := map[string]bool{}
	var choices []string
	for _, p := range named {
		if d := path.Dir(p); !dirs[d] {
			dirs[d] = true
			choices = append(choices, path.Join(d, word))
		}
	}
	if len(choices) > 1 {
		return nil, &SettingError{"split", fmt.Errorf("several directories have a split %q: choose one of %s as the split",
			word, list(choices))}
	}
	slices.Sort(named)
	return named, nil
}

func in(dir string) string {
	if dir == "" {
		return ""
	}
	return " in " + dir
}

// hasWord reports whether a path contains a word, between characters that are neither letters nor digits.
func hasWord(p, word string) bool {
	return slices.Contains(strings.FieldsFunc(strings.ToLower(p), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}), strings.ToLower(word))
}
