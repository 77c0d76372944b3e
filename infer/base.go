package infer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"restyle/hf"
	"restyle/hf/hub"
	"restyle/internal/disk"
)

// ErrBaseGone is the error for a model that was made from a model in a directory that no longer exists.
var ErrBaseGone = errors.New("which is not there any more")

// BaseOf returns the model that another was made from, or that an adapter belongs to. In a directory, the first of
// these names it: an adapter's restyle_adapter.json or adapter_config.json, perhaps by a path from that directory, the
// run.json that train writes, the export.json of export, or the front matter of the model card, README.md. For a model
// on the hub, h, the card names it, and for an adapter there, its files do as in a directory; h may be nil, as for
// [hf.Open]. BaseOf returns "" if none is named.
func BaseOf(ctx context.Context, h *hub.Hub, name string) (base string, err error) {
	dir := name
	ref, notID := hub.ParseRef(hub.Model, name)
	if _, absent := os.Stat(name); absent != nil && notID == nil && strings.Contains(name, "/") {
		if dir, err = cardOf(ctx, h, ref); dir == "" || err != nil {
			return "", err
		}
	}
	base = baseIn(dir)
	if _, err := os.Stat(base); (filepath.IsAbs(base) || onWindows.MatchString(base)) && errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s was made from the model in %s, %w", name, base, ErrBaseGone)
	}
	return base, nil
}

// onWindows matches a path of another machine, which as a name would be a file in the hub's repository C.
var onWindows = regexp.MustCompile(`^[A-Za-z]:[/\\]`)

// cardOf returns the directory of the card of a model on the hub, and of the files of an adapter that name its base,
// or "" if it has none. Offline, a file that the cache lacks counts as absent.
func cardOf(ctx context.Context, h *hub.Hub, ref hub.Ref) (dir string, err error) {
	if h == nil {
		h = hub.FromEnv()
	}
	l, err := h.Resolve(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("there is no directory %q, and the hub: %w", ref.ID, err)
	}
	for _, file := range []string{"README.md", "restyle_adapter.json", "adapter_config.json"} {
		if _, there := l.File(file); !there {
			continue
		}
		path, err := h.Fetch(ctx, l, file)
		if err != nil && !h.Offline {
			return "", err
		}
		if err == nil {
			dir = filepath.Dir(path)
		}
	}
	return dir, nil
}

// baseIn returns the base model that the files of a directory name.
func baseIn(dir string) string {
	for _, from := range []struct{ file, key string }{
		{"restyle_adapter.json", "base_model"}, {"adapter_config.json", "base_model_name_or_path"},
		{"adapter_config.json", "model"}, // of mlx-lm
		{"run.json", "base_model"}, {"export.json", "base_model"},
	} {
		data, err := disk.ReadInput(filepath.Join(dir, from.file), disk.MaxRecord)
		var made map[string]any
		if err != nil || json.Unmarshal(data, &made) != nil {
			continue
		}
		name, _ := made[from.key].(string)
		beside := filepath.Join(dir, name)
		if hf.IsPath(beside) && name != "" && !filepath.IsAbs(name) {
			return beside
		}
		if name != "" {
			return name
		}
	}
	f, err := disk.OpenInput(filepath.Join(dir, "README.md"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, disk.MaxRecord))
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != "---" {
		return ""
	}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(name) {
		case "---":
			return ""
		case "base_model":
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			if value == "" && lines.Scan() { // a list with one name
				value = strings.Trim(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "- "), `"'`)
			}
			return value
		}
	}
	return ""
}
