package expect

import (
	"os"
	"path/filepath"
	"testing"
)

// TestChats finds conversations by what is in them, and the tokenizer that has their tokens, whatever directories are
// called.
func TestChats(t *testing.T) {
	root := t.TempDir()
	t.Setenv("RESTYLE_REFERENCE", root)
	for path, text := range map[string]string{
		"a/b/chatml.jsonl":             `{"messages":[],"options":{},"text":"<|im_start|>","ids":[1]}` + "\n",
		"a/b/zephyr.jsonl":             `{"messages":[],"options":{}}` + "\n",
		"a/tokenizer/c/tokenizer.json": `{"<|im_start|>":1}`,
		"a/tokenizer/d/tokenizer.json": `{"<|start_header_id|>":1}`,
		"rows/rows.jsonl":              `{"messages":[]}` + "\n",
		"own/vectors.jsonl":            `{"messages":[],"options":{}}` + "\n",
		"own/template.jinja":           "",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	chats := Chats(t)
	if len(chats) != 2 || chats[0].Name != "chatml" || chats[1].Name != "zephyr" || chats[1].Tokenizer != "" ||
		filepath.Clean(chats[0].Tokenizer) != filepath.Join(root, "a/tokenizer/c/tokenizer.json") {
		t.Errorf("%+v", chats)
	}
}
