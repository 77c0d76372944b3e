package infer

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// BaseOf returns the base model of the tuned model in dir: base_model in the run.json that train writes, or else in the
// front matter of the model card, README.md, where the hub looks for it, too. It returns "" if neither names one.
func BaseOf(dir string) string {
	if data, err := disk.ReadInput(filepath.Join(dir, "run.json")); err == nil {
		var run struct {
			Base string `json:"base_model"`
		}
		if json.Unmarshal(data, &run) == nil && run.Base != "" {
			return run.Base
		}
	}
	f, err := disk.OpenInput(filepath.Join(dir, "README.md"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
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
