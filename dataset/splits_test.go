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
	if err := json.Unmarshal([]byte(expect.Read(t, "testdata/splits.json")), &layouts); err != nil {
		t.Fatal(err)
	}
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

// TestSplitOfRepository names files instead of a split, and has mistakes in cards and names.
func TestSplitOfRepository(t *testing.T) {
	card := func(config string) string { return "---\nconfigs:\n- config_name: en\n" + config + "\n---\n" }
	gsm := "main/train.parquet socratic/train.parquet"
	for _, c := range []struct{ paths, card, config, split, want string }{
		{"b.json a.json", "", "", "b.json", "b.json"},
		{"train_sft.json train_gen.json test.json", "", "", "train_s*", "train_sft.json"},
		{"a/x.json b/y.json b/z.csv", "", "", "**", "a/x.json b/y.json"},
		{"a/x.json b/y.json", "", "", "", `error: choose one of "a/train", "b/train"`},
		{"a/x.json b/y.json", "", "", "a/train", "a/x.json"},
		{"x.json b/y.json", "", "", "", `error: choose one of "x.json", "b/train"`},
		{gsm, "", "", "", `error: choose one of "main/train", "socratic/train" as the split, or "**" for all files`},
		{gsm, "", "", "socratic/train", "socratic/train.parquet"},
		{gsm, "", "main", "", "main/train.parquet:main"},
		{gsm, "", "main", "test", `error: no split "test" in main/: choose one of "train"`},
		{gsm, "", "none", "", `error: declares no configs, and has no directory "none"`},
		{gsm, "", "default", "main/train", "main/train.parquet:default"},
		{"x/train/0.parquet x/train/1.parquet x/test/0.parquet", "", "", "", "x/train/0.parquet x/train/1.parquet"},
		{"a/train/0.parquet b/train/0.parquet", "", "", "", `error: choose one of "a/train", "b/train"`},
		{"a.json b.json", card("  data_files: a.json"), "en", "b.json", `error: the config "en": leave one out`},
		{"a.json b.json", card("  data_files: a.json"), "", "test", `error: of the config "en": choose one of "train"`},
		{"a.json b.json", card("  data_files: a.json"), "fr", "", `error: no config "fr": name one of "en"`},
		{"a.json b.json", card("  data_files: c.json"), "", "", `error: names the file "c.json", which is not there`},
		{"a.json b.json", card("  data_files: hf://datasets/x/y/z.json"), "", "", `error: not a path in the dataset`},
		{"a.json b.json", card("  data_files: ../a.json"), "", "", `error: not a path in the dataset`},
		{"a.csv b.csv", card("  sep: ';'\n  data_files: a.csv"), "", "", `error: the config "en" sets sep, which`},
		{"a.csv b.csv", card("  filters: x\n  data_files: a.csv"), "", "", `error: the config "en" sets filters, which`},
		{"a.json b.json", card("  data_files: [{split: x, path: a.json}]"), "", "x", "a.json"},
		{"a.json b.json", card("  data_files: [[a.json]]"), "", "", "error: must be a path, a list of paths, or"},
		{"a.json b.json", "---\n: [\n---\n", "", "", `error: its YAML cannot be read`},
		{"a.json b.json", "---\nconfigs:\n  a: b\n---\n", "", "",
			"error: its YAML cannot be read (line 2: cannot unmarshal !!map)"},
		{"a.json b.json", "---\n: [\n---\n", "", "*", "a.json b.json"},
		{"a.json", "", "", "train[:10%]", `error: no file with rows matches the pattern "train[:10%]"`},
		{"a.json", card("  data_files: a.json\n- config_name: fr\n  data_files: a.json\n- config_name: en"), "", "",
			`error: two entries of configs have the config_name "en"`},
		{"a.json", "---\nconfigs:\n- data_files: a.json\n---\n", "", "", "error: entry 0 of configs has no config_name"},
		{"a.json b.json", card("  data_files: [{split: x, path: a.json}, {split: y}]"), "", "x",
			`error: entry 1 of data_files of the config "en" lacks split or path`},
		{"a.json b.json", card("  data_files: [{split: x, path: a.json}, {path: b.json}]"), "", "x", "error: entry 1 of"},
		{"a.json b.json", card("  data_files: [{split: x, path: a.json}, {split: x, path: b.json}]"), "", "x",
			`error: two entries of the split "x"`},
		{"a.json b.json", card("  data_files: [{split: x, path: [b.json, a.json]}]"), "", "x", "b.json a.json"},
		{"a.json b.json", card("  data_files: a.json\n- config_name: fr\n  data_files: b.json"), "", "",
			`error: several configs, "en", "fr": name one`},
		{"a.json b.json", card("  data_files: a.json\n- config_name: fr\n  data_files: b.json"), "fr", "", "b.json:fr"},
		{"a.json b.json", card("  data_files: a.json\n- config_name: fr\n  default: true\n  data_files: b.json"), "", "",
			"b.json:fr"},
		{"a.json b.json", card("  data_files: a.json\n- config_name: default\n  data_files: b.json"), "", "",
			"b.json:default"},
		{"a.json b.json", card("  default: true\n  data_files: a.json\n- config_name: fr\n  default: true"), "", "",
			`error: both the config "en" and "fr" are the default: name one: the dataset has several configs, "en", "fr"`},
		{"a.json b.json", card("  default: true\n  data_files: a.json\n- config_name: fr\n  default: true\n" +
			"  data_files: b.json"), "fr", "", "b.json:fr"},
		{"x/a.json y/a.json", card("  data_dir: x\n  data_files: '*.json'"), "", "", "x/a.json"},
		{"x/a.json y/a.json", card("  data_dir: /y/"), "", "", "y/a.json"},
		{"a.csv b.json", card("  data_files: [a.csv, b.json]"), "", "", `error: the card mixes formats in the split "train"`},
		{"config.json a.json", card("  data_files: config.json"), "", "", "config.json"},
		{"config.json a.json", card("  data_files: '*.json'"), "", "", "a.json"},
		{"config.json a.json", card("  data_files: 'c*.json'"), "", "", `error: no parquet`},
		{".x/a.json a.json .b.json", "", "", "**", "a.json"},
		{".x/a.json a.json .b.json", "", "", ".x/*", ".x/a.json"},
		{".x/a.json a.json .b.json", "", "", ".b*", ".b.json"},
		{"__x/a.json a.json __b.json", "", "", "**", "a.json __b.json"},
		{"__x/a.json a.json", "", "", "__x/*", "__x/a.json"},
		{"x/y/a.json x/a.json a.json", "", "", "**/a.json", "x/y/a.json x/a.json a.json"},
		{"x/y/a.json x/a.json a.json", "", "", "*/a.json", "x/a.json"},
		{"x/y/a.json x/a.json a.json", "", "", "x/**", "x/y/a.json x/a.json"},
		{"x/y/a.json x/a.json a.json", "", "", "x/*/*", "x/y/a.json"},
		{"ab.json ac.json a.json a].json", "", "", "a[b-c].json", "ab.json ac.json"},
		{"ab.json ac.json a.json", "", "", "a[!b].json", "ac.json"},
		{"ab.json ac.json a.json", "", "", "a?.json", "ab.json ac.json"},
		{"ab.json a.json", "", "", "a[z-a].json", "error: no file with rows matches"},
		{"ab.json a.json", "", "", "a**.json", "error: ** next to other characters"},
		{"x/ab.json x/a.json", "", "", "x/**.json", `error: "x/**.json" has ** next to other characters`},
		{"ab.json a.json", "", "en", "*.json", `error: leaves no choice to the config "en"`},
		{"rows.xlsx", "", "", "", `error: no parquet, JSONL, JSON or CSV file (it has "rows.xlsx")`},
	} {
		paths := strings.Fields(c.paths)
		if c.card != "" {
			paths = append(paths, "README.md")
		}
		got, err := choose(paths, func(string) (string, error) { return c.card, nil }, c.config, c.split)
		if words, isError := strings.CutPrefix(c.want, "error: "); isError {
			expect.Error(t, err, words)
		} else if err != nil || strings.Join(got.files, " ")+got.suffix != c.want {
			t.Errorf("%q of %q: %q, %v", c.split, c.paths, got, err)
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
