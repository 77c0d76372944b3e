package infer

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// BaseOf returns the model that the one in dir was made from: base_model in the run.json that train writes or in the
// quantize.json of quantize, or else in the front matter of the model card, README.md, where the hub looks for it, too.
// It returns "" if none names one.
func BaseOf(dir string) string {
	for _, name := range []string{"run.json", "quantize.json"} {
		data, err := disk.ReadInput(filepath.Join(dir, name))
		var made struct {
			Base string `json:"base_model"`
		}
		if err == nil && json.Unmarshal(data, &made) == nil && made.Base != "" {
			return made.Base
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
