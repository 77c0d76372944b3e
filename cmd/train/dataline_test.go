package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"restyle/internal/cli"
	"restyle/internal/expect"
)

// TestDataLine checks that train names the files it read, the columns it used and those it did not, also before an
// example.
func TestDataLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "things")
	expect.OK(t, os.Mkdir(dir, 0o777))
	for name, row := range map[string]string{
		"train-00000-of-00002.jsonl": `{"messages":[{"role":"user","content":"a","id":7,"train":true},{"role":"assistant",` +
			`"content":"BAD","train":false},{"role":"user","content":"b"},{"role":"assistant","content":"c"}],"source":"web"}`,
		"train-00001-of-00002.jsonl": `{"messages":[{"role":"user","content":"d"},{"role":"assistant","content":"e"}],` +
			`"history":[["f","g"]]}` + "\n" + `{"messages":[{"role":"user","content":"h"},{"role":"assistant","content":[` +
			`{"type":"text","text":"i","train":false},{"type":"text","text":"j"}]}]}`,
		"test.jsonl": `{"messages":[]}`,
	} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(row+"\n"), 0o666))
	}
	for _, stop := range []string{"--show-example", "--dry-run"} {
		o := must(t, cli.Done, "--model", tinyBase, "--data", dir, "--val", "0", "--samples", "0", "--out",
			filepath.Join(t.TempDir(), "out"), stop)
		for _, want := range []string{
			"things: 3 rows, chat messages (messages), with history\n",
			"files read: train-00000-of-00002.jsonl, train-00001-of-00002.jsonl\n",
			"not used: source, id\n",
			"context, not learned: 1 answer that the data marks so\n",
			"context, not learned: 1 part of answers that the data marks so\n",
			"not learned: 1 message besides answers that the data marks so (--train-on all learns them)\n",
		} {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("%s: %q is not in\n%s", stop, want, o.stdout)
			}
		}
	}
}
