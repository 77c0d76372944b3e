package hf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"restyle/hf/hub"
)

// fetchModel downloads the files of a model from a hub repository into the cache, and returns their directory there.
// It downloads no weights but the model's own safetensors, and those only after config.json has proved to describe a
// model that OpenModel reads.
//
// Offline, a small file that the cache lacks counts as absent: Python may not have needed it.
func fetchModel(ctx context.Context, h *hub.Hub, l hub.Listing) (dir string, err error) {
	if types := ggufTypes(l); len(types) > 0 && !hasOtherWeights(l) {
		return "", fmt.Errorf("%s%s has only GGUF files: name one by its type, such as %s:%s", l.Ref, within(h),
			l.Ref.ID, types[0])
	}
	if holdsAdapter(l) {
		return "", fmt.Errorf("%s %w", l.Ref, ErrAdapter)
	}
	if _, ok := l.File("config.json"); !ok {
		return "", fmt.Errorf("%s%s has no config.json: give a model in the Hugging Face layout", l.Ref, within(h))
	}
	local, err := h.Fetch(ctx, l, "config.json")
	if err != nil {
		return "", err
	}
	data, err := directory(filepath.Dir(local)).readText("config.json")
	if err != nil {
		return "", err
	}
	if _, err := ParseConfig(data); err != nil {
		return "", fmt.Errorf("%s: %w", l.Ref, err)
	}
	files, err := weightFiles(ctx, h, l)
	if err != nil {
		return "", err
	}
	return filepath.Dir(local), fetchFiles(ctx, h, l, files)
}

// fetchFiles downloads the small files that a repository has, and then its files of weights.
func fetchFiles(ctx context.Context, h *hub.Hub, l hub.Listing, weights []string, more ...string) error {
	small := slices.Concat(companions, more)
	for _, f := range l.Files {
		if isMoreTemplate(f.Path) {
			small = append(small, f.Path)
		}
	}
	for _, name := range small {
		if _, ok := l.File(name); !ok {
			continue
		}
		if _, err := h.Fetch(ctx, l, name); err != nil && !h.Offline {
			return err
		}
	}
	for _, name := range weights {
		if _, err := h.Fetch(ctx, l, name); err != nil {
			return err
		}
	}
	return nil
}

// ErrAdapter is the error of Open for a hub repository with an adapter, which FindAdapter finds.
var ErrAdapter = errors.New("is an adapter, not a whole model")

// holdsAdapter is IsAdapter for a repository, unless that has a model's weights as well.
func holdsAdapter(l hub.Listing) bool {
	has := func(name string) bool {
		_, ok := l.File(name)
		return ok
	}
	return has(adapterConfigName) && !has(singleName) && !has(indexName) &&
		(has(adapterWeightsName) || has(adapterMLXName) || !has("config.json"))
}

// FindAdapter returns the directory of an adapter, for OpenAdapter: name, if that is one (see IsAdapter), or the
// directory in the cache with the files of a hub repository, "owner/name" or "owner/name@revision", which it
// downloads as Open does. Such a repository has an adapter_config.json and no weights of a model. FindAdapter returns
// "" for other names. If h is nil, it uses hub.FromEnv().
func FindAdapter(ctx context.Context, h *hub.Hub, name string) (dir string, err error) {
	if IsAdapter(name) {
		return name, nil
	}
	ref, notID := hub.ParseRef(hub.Model, name)
	if _, err := os.Stat(name); err == nil || notID != nil || !strings.Contains(name, "/") {
		return "", nil
	}
	if h == nil {
		h = hub.FromEnv()
	}
	l, err := h.Resolve(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("there is no directory %q, and the hub: %w", name, err)
	}
	if !holdsAdapter(l) {
		return "", nil
	}
	return fetchAdapter(ctx, h, l)
}

// fetchAdapter is fetchModel for an adapter.
func fetchAdapter(ctx context.Context, h *hub.Hub, l hub.Listing) (dir string, err error) {
	local, err := h.Fetch(ctx, l, adapterConfigName)
	if err != nil {
		return "", err
	}
	dir = filepath.Dir(local)
	config, err := directory(dir).readText(adapterConfigName)
	if err != nil {
		return "", err
	}
	weights := adapterMLXName
	if !isMLX(config) {
		weights = adapterWeightsName
		if _, _, err := parseAdapterConfig(config); err != nil {
			return "", fmt.Errorf("%s: %w", l.Ref, err)
		}
	}
	if _, ok := l.File(weights); !ok {
		_, pickle := l.File(adapterPickleName)
		return "", fmt.Errorf("%s%s: %w", l.Ref, within(h), noAdapter(pickle, weights))
	}
	return dir, fetchFiles(ctx, h, l, []string{weights}, adapterRecordName)
}

// within returns text for an error, saying that the repository may have what its copy in the cache lacks.
func within(h *hub.Hub) string {
	if h.Offline {
		return " in the cache (offline: HF_HUB_OFFLINE)"
	}
	return ""
}

// weightFiles returns the repository's files that hold the model's weights.
func weightFiles(ctx context.Context, h *hub.Hub, l hub.Listing) ([]string, error) {
	if _, ok := l.File(singleName); ok {
		return []string{singleName}, nil
	}
	if _, ok := l.File(indexName); !ok {
		var names []string
		for _, f := range l.Files {
			names = append(names, f.Path)
		}
		return nil, fmt.Errorf("%s%s %w", l.Ref, within(h), otherWeights(names))
	}
	local, err := h.Fetch(ctx, l, indexName)
	if err != nil {
		return nil, err
	}
	data, err := directory(filepath.Dir(local)).readText(indexName)
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

// ggufType finds the type in the name of a GGUF file, such as Q4_K_M in model-Q4_K_M-00001-of-00002.gguf.
var ggufType = regexp.MustCompile(`(?i)[-._]((?:UD-)?(?:I?Q\d\w*|B?F16|F32|FP16|FP32|MXFP4\w*|TQ\d_\d))` +
	`(-\d{5}-of-\d{5})?\.gguf$`)

// ggufTypes lists the types in the names of a repository's GGUF files.
func ggufTypes(l hub.Listing) (types []string) {
	for _, f := range l.Files {
		if m := ggufType.FindStringSubmatch(f.Path); m != nil && !slices.Contains(types, m[1]) {
			types = append(types, m[1])
		}
	}
	return types
}

func hasOtherWeights(l hub.Listing) bool {
	files, _ := l.Match("*.safetensors", "*.bin", "*.pt", "*.pth")
	return len(files) > 0
}

// fetchGGUF returns a function that downloads the GGUF file of a type, all of it if it is in parts, and returns its
// first path.
func fetchGGUF(of string) func(ctx context.Context, h *hub.Hub, l hub.Listing) (string, error) {
	return func(ctx context.Context, h *hub.Hub, l hub.Listing) (first string, err error) {
		whole := "" // the name without a part's number
		var parts []string
		for _, f := range l.Files { // sorted, so parts are in order
			m := ggufType.FindStringSubmatch(f.Path)
			if m == nil || !strings.EqualFold(m[1], of) {
				continue
			}
			name := strings.TrimSuffix(f.Path, m[2]+filepath.Ext(f.Path))
			if parts != nil && name != whole {
				return "", fmt.Errorf("%s has several GGUF files of type %s, %s and %s: download one, and give its path", l.Ref,
					of, parts[0], f.Path)
			}
			whole, parts = name, append(parts, f.Path)
		}
		if parts == nil {
			return "", fmt.Errorf("%s%s has no GGUF file of type %s: it has %s", l.Ref, within(h), of,
				cmp.Or(strings.Join(ggufTypes(l), ", "), "none"))
		}
		for i, name := range parts {
			path, err := h.Fetch(ctx, l, name)
			if err != nil {
				return "", err
			}
			if i == 0 {
				first = path
			}
		}
		return first, nil
	}
}
