package infer

import (
	"bufio"
	"path/filepath"
	"strings"

	"restyle/internal/disk"
)

// BaseOf returns the base model of a tuned model: base_model in the front matter of its model card, README.md, where
// the hub looks for it, too. It is empty if the card does not say.
func BaseOf(dir string) string {
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
