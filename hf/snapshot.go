package hf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Model gives the directory of a model, for OpenModel. name is that of a directory, which is given back with no revision,
// or else "owner/name" or "owner/name@revision" of a hub repository: then what a model needs of it is in the cache
// afterwards, and revision is its commit. Of the weights only the model's own safetensors are fetched, and nothing is
// before config.json has been found to describe a model that OpenModel reads.
//
// Offline, a small file that the cache lacks counts as absent: Python may not have wanted it.
func (h *Hub) Model(ctx context.Context, name string) (dir, revision string, err error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name, "", nil
	}
	ref, err := ParseRef(Model, name)
	if err != nil {
		return "", "", fmt.Errorf("there is no directory %q, and as a hub repository: %w", name, err)
	}
	l, err := h.Resolve(ctx, ref)
	if err != nil {
		return "", "", fmt.Errorf("there is no directory %q, and the hub: %w", name, err)
	}
	if dir, err = h.fetchModel(ctx, l); err != nil {
		return "", "", err
	}
	return dir, l.Commit, nil
}

func (h *Hub) fetchModel(ctx context.Context, l Listing) (dir string, err error) {
	if _, ok := l.File("config.json"); !ok {
		return "", fmt.Errorf("%s%s has no config.json: it is no model in the Hugging Face layout", l.Ref, h.within())
	}
	local, err := h.Fetch(ctx, l, "config.json")
	if err != nil {
		return "", err
	}
	data, err := readText(local)
	if err != nil {
		return "", err
	}
	if _, err := ParseConfig(data); err != nil {
		return "", fmt.Errorf("%s: %w", l.Ref, err)
	}
	files, err := h.weightFiles(ctx, l)
	if err != nil {
		return "", err
	}
	for _, name := range companions {
		if _, ok := l.File(name); !ok {
			continue
		}
		if _, err := h.Fetch(ctx, l, name); err != nil && !h.Offline {
			return "", err
		}
	}
	for _, name := range files {
		if _, err := h.Fetch(ctx, l, name); err != nil {
			return "", err
		}
	}
	return filepath.Dir(local), nil
}

// within says in errors that a repository may well have what its copy in the cache lacks.
func (h *Hub) within() string {
	if h.Offline {
		return " in the cache (HF_HUB_OFFLINE is set)"
	}
	return ""
}

// weightFiles are the repository's files that hold the model's weights.
func (h *Hub) weightFiles(ctx context.Context, l Listing) ([]string, error) {
	if _, ok := l.File(singleName); ok {
		return []string{singleName}, nil
	}
	if _, ok := l.File(indexName); !ok {
		var names []string
		for _, f := range l.Files {
			names = append(names, f.Path)
		}
		return nil, fmt.Errorf("%s%s %w", l.Ref, h.within(), otherWeights(names))
	}
	local, err := h.Fetch(ctx, l, indexName)
	if err != nil {
		return nil, err
	}
	data, err := readText(local)
	if err != nil {
		return nil, err
	}
	where, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", indexName, l.Ref, err)
	}
	var files, missing []string
	for _, file := range where {
		files = append(files, file)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	for _, file := range files {
		if _, ok := l.File(file); !ok {
			missing = append(missing, file)
		}
	}
	if missing != nil {
		return nil, errors.New(l.Ref.String() + " lacks " + few(missing) + ", which its index names")
	}
	return files, nil
}
