package dataset

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"restyle/hf/hub"
)

// extensions are those of data files, the preferred first.
var extensions = []string{".parquet", ".jsonl", ".json"}

// looksLikeHubID tells "owner/name" from a path that is not there.
func looksLikeHubID(spec string) bool {
	_, err := hub.ParseRef(hub.Dataset, spec)
	named := slices.Contains(extensions, strings.ToLower(path.Ext(spec)))
	return err == nil && strings.Contains(spec, "/") && !named
}

// openHub reads the files of one split in the order of their names, each fetched
// when its turn comes.
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
		return nil, fmt.Errorf("dataset: there is no file %s here, and the hub: %w", spec, err)
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
	return newSource(ref.ID, listing.Commit, w, parts)
}

// notData are files of a repository that describe it and hold no rows.
var notData = []string{"dataset_infos.json", "dataset_dict.json", "dataset_info.json", "state.json", "croissant.json"}

// splitWords are the words by which files name a split.
var splitWords = []string{"train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval", "evaluation"}

// splitFiles chooses the files of a split, which may also be the path of a file or
// "folder/split". A file belongs to a split that its path has as a word
// (data/train-00000-of-00001.parquet); where no file names a split, all are "train".
// Parquet is preferred to JSONL and JSONL to JSON, and formats are not mixed.
func splitFiles(paths []string, split string) ([]string, error) {
	if split == "" {
		split = "train"
	}
	if slices.Contains(paths, split) {
		return []string{split}, nil
	}
	folder, word := path.Split(split)
	var data []string
	for _, ext := range extensions {
		for _, p := range paths {
			if strings.HasPrefix(p, folder) && strings.EqualFold(path.Ext(p), ext) && !slices.Contains(notData, path.Base(p)) {
				data = append(data, p)
			}
		}
		if data != nil {
			break
		}
	}
	if data == nil {
		return nil, fmt.Errorf("the repository has no parquet, JSONL or JSON file%s (it has %s): convert it, or name another", in(folder), list(paths))
	}
	named := slices.DeleteFunc(slices.Clone(data), func(p string) bool { return !hasWord(strings.TrimPrefix(p, folder), word) })
	anyNamed := slices.ContainsFunc(data, func(p string) bool {
		return slices.ContainsFunc(splitWords, func(w string) bool { return hasWord(strings.TrimPrefix(p, folder), w) })
	})
	if len(named) == 0 && word == "train" && !anyNamed {
		named = data
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("no file is of the split %q%s: choose one of %s with --split", word, in(folder), list(data))
	}
	folders := map[string]bool{}
	var choices []string
	for _, p := range named {
		if dir := path.Dir(p); !folders[dir] {
			folders[dir] = true
			choices = append(choices, path.Join(dir, word))
		}
	}
	if len(choices) > 1 {
		return nil, fmt.Errorf("several folders have a split %q: choose with --split, one of %s", word, list(choices))
	}
	slices.Sort(named)
	return named, nil
}

func in(folder string) string {
	if folder == "" {
		return ""
	}
	return " in " + folder
}

// hasWord reports whether a path has a word between characters that are neither
// letters nor digits.
func hasWord(p, word string) bool {
	return slices.Contains(strings.FieldsFunc(strings.ToLower(p), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}), strings.ToLower(word))
}
