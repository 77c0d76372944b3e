package dataset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestSplits_AsHuggingFaceChooses holds the choice of files to Hugging Face's datasets 5.2.0, which recorded
// testdata/splits.json: the splits of each config of these layouts, or that it refuses them.
func TestSplits_AsHuggingFaceChooses(t *testing.T) {
	// What is meant to differ: what datasets mixes or refuses, and here the files of train, or words of an error.
	differs := map[string]string{
		"data/train-0.jsonl data/train-1.jsonl data/x/train-2.jsonl": `error: "data/train-1.jsonl", "data/x/train"`,
		"data/train-sft-00000-of-00001.parquet":                      `error: choose one of "train-sft"`,
		"train.JSONL":                                                "train.JSONL",
		"train.csv train.tsv":                                        "train.csv",
		"c.csv d.jsonl":                                              "error: mixes formats in the split",
		"de/train.jsonl fr/train.jsonl":                              "de/train.jsonl",
		"e.csv f.jsonl":                                              "e.csv",
		"a.txt b.txt data.jsonl":                                     "error: most files are .txt, which is not read",
		"train/data-00000-of-00001.arrow train/state.json train/dataset_info.json dataset_dict.json": "" +
			"error: most files are .arrow",
	}
	var layouts []struct {
		Files  []string
		Card   string
		Config string
		Error  bool
		Splits map[string][]string
	}
	expect.OK(t, json.Unmarshal([]byte(expect.Read(t, "testdata/splits.json")), &layouts))
	for _, l := range layouts {
		name := strings.Join(l.Files, " ")
		paths := slices.Clone(l.Files)
		if l.Card != "" {
			paths = append(paths, "README.md")
		}
		slices.Sort(paths)
		read := func(string) (string, error) { return l.Card, nil }
		want, special := differs[name]
		if special {
			got, err := choose(paths, read, "", "")
			if words, isError := strings.CutPrefix(want, "error: "); isError {
				expect.Error(t, err, words)
			} else if err != nil || strings.Join(got.files, " ") != want {
				t.Errorf("%s: %q, %v", name, got.files, err)
			}
			continue
		}
		what := fmt.Sprintf("%s, config %q, card %q", name, l.Config, l.Card)
		_, err := choose(paths, read, l.Config, "no-such")
		if err == nil {
			t.Errorf("%s: a split is not there and was found", what)
		}
		for split, files := range l.Splits {
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", split)) {
				t.Errorf("%s: the splits are %v, and the error %v", what, l.Splits, err)
			}
			got, err := choose(paths, read, l.Config, split)
			slices.Sort(files)
			slices.Sort(got.files)
			if err != nil || !slices.Equal(got.files, slices.Compact(files)) {
				t.Errorf("%s: split %s: %q, %v; want %q", what, split, got.files, err, files)
			}
		}
		if got, err := choose(paths, read, l.Config, ""); l.Error && err == nil {
			t.Errorf("%s: read %q, which datasets refuses", what, got.files)
		}
	}
}

// FuzzChoose has a hostile card and patterns: it must return files that are there, each once, or an error.
func FuzzChoose(f *testing.F) {
	f.Add("a.json b/c.json", "---\nconfigs:\n- config_name: x\n  data_files: '[!a-'\n---\n", "x", "")
	f.Add("data/train-00000-of-00001.parquet", "---\nconfigs: &a [*a]\n---\n", "", "[]]/**/?")
	f.Fuzz(func(t *testing.T, files, card, config, split string) {
		paths := append(strings.Fields(files), "README.md")
		var got chosen
		var err error
		hostile.Within(t, hostile.Linear(len(files)+len(card)+len(config)+len(split)), func() {
			got, err = choose(paths, func(string) (string, error) { return card, nil }, config, split)
		})
		for i, file := range got.files {
			if err == nil && (!slices.Contains(paths, file) || slices.Contains(got.files[:i], file)) {
				t.Errorf("%q is not there, or twice", file)
			}
		}
		if err == nil && len(got.files) == 0 {
			t.Error("neither files nor an error")
		}
	})
}

// TestSplits_InOrder checks that each split is there once, the known ones first.
func TestSplits_InOrder(t *testing.T) {
	files := map[string]patterns{}
	for _, name := range []string{"extra", "test", "another", "train"} {
		files[name] = patterns{name + ".csv"}
	}
	var names []string
	for _, s := range inOrder(files) {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "train test another extra" {
		t.Error(got)
	}
}
