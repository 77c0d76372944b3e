package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"restyle/hf"
	"restyle/hf/hub"
	"restyle/internal/models"
)

// card returns the model card of a merged model: what was merged into what.
func (o options) card(a *hf.Adapter, m hf.Merge, out string) []byte {
	base := m.Base
	var b bytes.Buffer
	fmt.Fprintln(&b, "---")
	if ref, err := hub.ParseRef(hub.Model, base.Name); err == nil && base.Revision != "" {
		fmt.Fprintf(&b, "base_model: %s\n", ref.ID)
	}
	fmt.Fprintf(&b, "library_name: transformers\npipeline_tag: text-generation\ntags:\n- restyle\n---\n\n# %s\n\n",
		filepath.Base(absolute(out)))
	fmt.Fprintf(&b, "%s with the adapter %s merged in by restyle: each weight W of a target became W + scale·B·A, "+
		"rounded once.\n\n| | |\n|---|---|\n", public(base.Name, base.Revision), public(a.Name, ""))
	rows := [][2]string{{"base", public(base.Name, base.Revision)}, {"adapter", public(a.Name, "")}}
	if o.onto != "" {
		rows = append(rows, [2]string{"the adapter was trained on", public(a.BaseModel, "")})
	}
	if m.Layers != "" {
		rows = append(rows, [2]string{"the base's layers were first rounded to, as in training", m.Layers})
	}
	rows = append(rows, [2]string{"adapter's settings", a.Spec.String()}, [2]string{"scale", scales(a)})
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], strings.NewReplacer("|", `\|`, "\n", " ").Replace(row[1]))
	}
	b.WriteString(models.Elsewhere(base.Config, "", false))
	return b.Bytes()
}

// public returns a model's name for a card: of a directory only the last part, of a hub repository also its revision.
func public(name, revision string) string {
	if revision != "" {
		id, _, _ := strings.Cut(name, "@")
		return id + "@" + revision
	}
	path, err := filepath.Abs(name)
	if _, absent := os.Stat(name); err != nil || absent != nil && !filepath.IsAbs(name) {
		return name
	}
	return filepath.Base(path)
}
