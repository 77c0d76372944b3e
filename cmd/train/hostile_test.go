package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever train reads something, and looks at all that it prints.
func TestHostileTexts(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	for name, text := range hostile.Texts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			data := filepath.Join(dir, text+".json")
			row := fmt.Sprintf(`{"instruction": %s, "output": %s}`, quoted, quoted)
			if err := os.WriteFile(data, []byte("["+row+","+row+"]"), 0o600); err != nil {
				t.Skip("this file system does not take the name: ", err)
			}
			odd := filepath.Join(dir, "odd.json")
			if err := os.WriteFile(odd, fmt.Appendf(nil, `[{%s: 1, "b": %s}]`, quoted, quoted), 0o600); err != nil {
				t.Fatal(err)
			}
			roles := filepath.Join(dir, "roles.json")
			messages := fmt.Appendf(nil, `[{"messages": [{"role": %s, "content": %s}]}]`, quoted, quoted)
			if err := os.WriteFile(roles, messages, 0o600); err != nil {
				t.Fatal(err)
			}
			look := func(what string, args ...string) {
				t.Helper()
				o := invoke(t, append(args, "--out", filepath.Join(dir, text+" out"), "--benchmark-log", filepath.Join(dir, "log.csv"))...)
				for _, output := range []string{o.stdout, o.stderr} {
					if found := hostile.Found(output, false); found != "" {
						t.Errorf("%s: %s", what, found)
					}
				}
			}
			look("settings", "--model", tinyBase, "--data", data, "--label", text, "--dry-run")
			look("example", "--model", tinyBase, "--data", data, "--show-example")
			look("columns", "--model", tinyBase, "--data", odd)
			look("roles", "--model", tinyBase, "--data", roles)
			look("no such data", "--model", tinyBase, "--data", filepath.Join(dir, text+"x"))
			look("no such model", "--model", filepath.Join(dir, text), "--data", data)
			look("parameter", "--model", tinyBase, "--data", data, "--freeze", text, "--dry-run")
			look("value of a flag", "--lr", text)
			look("configuration", "--from-scratch", filepath.Join(dir, text+".json"), "--text", data)
		})
	}
}
