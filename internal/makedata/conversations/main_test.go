package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/dataset"
)

// TestConversations joins two files and reads the result as train does: every row is in one conversation, with rows of
// its own file alone, and all lengths occur.
func TestConversations(t *testing.T) {
	dir := t.TempDir()
	var files []string
	var want []string
	for _, name := range []string{"plain", "pirate"} {
		var text strings.Builder
		for i := range 50 {
			row := map[string]string{"instruction": fmt.Sprintf("%s question %d", name, i),
				"output": fmt.Sprintf("%s answer %d", name, i)}
			if err := json.NewEncoder(&text).Encode(row); err != nil {
				t.Fatal(err)
			}
			want = append(want, row["instruction"]+" "+row["output"])
		}
		files = append(files, filepath.Join(dir, name+".jsonl"))
		if err := os.WriteFile(files[len(files)-1], []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out.jsonl")
	if err := run(t.Context(), append([]string{"--seed", "3", "--out", out}, files...), io.Discard); err != nil {
		t.Fatal(err)
	}
	talks, err := dataset.OpenConversations(t.Context(), out, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer talks.Close()
	var got []string
	lengths := map[int]int{}
	for {
		c, err := talks.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lengths[len(c.Messages)/2]++
		for i, m := range c.Messages {
			if file, _, _ := strings.Cut(c.Messages[0].Content, " "); !strings.HasPrefix(m.Content, file) {
				t.Errorf("%q is in a conversation of %s", m.Content, file)
			}
			if i%2 == 1 {
				got = append(got, c.Messages[i-1].Content+" "+m.Content)
			}
		}
	}
	if slices.Equal(got, want) {
		t.Error("the rows are in their old order")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the conversations have %d rows, and not those %d: %q", len(got), len(want), got)
	}
	if len(lengths) != 3 || min(lengths[1], lengths[2], lengths[3]) < 5 {
		t.Errorf("numbers of conversations by length: %v", lengths)
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{{"x.json"}, {"--out", "x"}, {"--out", "x", "--most", "0", "y.json"}} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "see -h") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
