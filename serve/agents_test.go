package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgents_AreAnswered sends what coding agents and libraries send, by their documentation, with the embedded
// model's name. What needs tools is refused by the name of that field, unless the model's template has tools.
func TestAgents_AreAnswered(t *testing.T) {
	f, tools := serving(t, Options{}), servingTools(t, "qwen2.5")
	files, err := filepath.Glob("testdata/agents/*.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Path   string
			Status int
			Body   json.RawMessage
		}
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(file, err)
		}
		status, answer := f.post(t, c.Path, string(c.Body))
		if status != c.Status || status == 400 && !strings.Contains(answer, "tools: the model takes no tools") {
			t.Errorf("%s: %d %s", file, status, answer)
		}
		if status, answer := tools.post(t, c.Path, string(c.Body)); c.Status == 400 && status != 200 {
			t.Errorf("%s: with tools: %d %s", file, status, answer)
		}
	}
}
