package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"restyle/internal/hostile"
)

// TestHostileTexts puts control sequences wherever train reads something, and checks everything that it prints.
func TestHostileTexts(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	hostile.Each(t, func(t *hostile.Test) {
		row := fmt.Sprintf(`{"instruction": %s, "output": %s}`, t.JSON, t.JSON)
		data := t.Write(t.Text+".json", "["+row+","+row+"]")
		odd := t.Write("odd.json", fmt.Sprintf(`[{%s: 1, "b": %s}]`, t.JSON, t.JSON))
		roles := t.Write("roles.json", fmt.Sprintf(`[{"messages": [{"role": %s, "content": %s}]}]`, t.JSON, t.JSON))
		look := func(what string, args ...string) {
			t.Helper()
			o := invoke(t.T, append(args, "--out", filepath.Join(t.Dir, t.Text+" out"), "--benchmark-log",
				filepath.Join(t.Dir, "log.csv"))...)
			t.Look(what, o.stdout, o.stderr)
		}
		look("settings", "--model", tinyBase, "--data", data, "--label", t.Text, "--dry-run")
		look("example", "--model", tinyBase, "--data", data, "--show-example")
		look("columns", "--model", tinyBase, "--data", odd)
		look("roles", "--model", tinyBase, "--data", roles)
		look("no such data", "--model", tinyBase, "--data", filepath.Join(t.Dir, t.Text+"x"))
		look("no such model", "--model", filepath.Join(t.Dir, t.Text), "--data", data)
		look("parameter", "--model", tinyBase, "--data", data, "--freeze", t.Text, "--dry-run")
		look("value of a flag", "--lr", t.Text)
		look("configuration", "--from-scratch", filepath.Join(t.Dir, t.Text+".json"), "--text", data)
	})
}
