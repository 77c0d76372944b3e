package dataset

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"restyle/hf/hub"
	"restyle/internal/expect"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	expect.OK(t, syscall.Mkfifo(pipe, 0o666))
	for _, c := range []struct {
		spec  string
		words []string
	}{
		{dir, []string{"no parquet, JSONL, JSON or CSV file"}},
		{pipe, []string{"not a regular file"}}, // it must not wait for a writer
		{expect.File(t, "x.json", ""), []string{"is empty"}},
		{filepath.Join(dir, "none.json"), []string{"not exist", "hub id"}}, // the extension shows that a file is meant
		{"none/rows.parquet", []string{"not exist"}},
		{"none", []string{"not exist", "starter"}},
		{"", []string{"not exist"}},
		{"a/b/c", []string{"not exist"}},
		{"../a/b", []string{"not exist"}},
		{"owner/na me", []string{"not exist"}},
		{"nul\x00l", []string{"invalid"}},
	} {
		_, err := Open(context.Background(), c.spec, Options{Hub: &hub.Hub{Offline: true, Cache: dir}})
		if err == nil {
			t.Errorf("%q: opened", c.spec)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v does not say %q", c.spec, err, w)
			}
		}
	}
}

func TestOpenByContentNotByName(t *testing.T) {
	parquet := expect.Read(t, "testdata/codec_zstd.parquet")
	for name, content := range map[string]string{
		"x.json": parquet, "x.txt": parquet, "x.parquet": `[{"instruction":"a","output":"b"}]`,
		"y.json": `{"instruction":"a","output":"b"}`, "x.jsonl": "[\n" + `{"instruction":"a","output":"b"}]`,
	} {
		rows, s, err := all(expect.File(t, name, content), Options{})
		if err != nil || len(rows) == 0 || s.Name != name {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
	}
}

func TestOpen_NamesColumns(t *testing.T) {
	path := expect.File(t, "x.jsonl", `{"question":"a","answer":"b","hint":"c"}`)
	_, s, err := all(path, Options{})
	if err != nil || s.Columns.String() != "instruction=question,output=answer" || s.Rows() != -1 {
		t.Errorf("%v, %v", s.Columns, err)
	}
	columns, _ := ParseColumns("instruction=question,input=hint,output=answer")
	rows, s, err := all(path, Options{Columns: columns})
	if err != nil || s.Columns != columns || rows[0].Input != "c" {
		t.Errorf("%v, %v", s.Columns, err)
	}
}

func TestRealJSON(t *testing.T) {
	for _, c := range []struct {
		name, columns string
		rows          int
	}{
		{"gpteacher_codegen-instruct.json", "instruction=instruction,input=input,output=response", 4535},
		{"torchtune_alpaca_tiny.json", "instruction=instruction,input=input,output=output", 100},
		{"original_passive_aggressive_data.json", "instruction=instruction,input=input,output=output_original", 576},
	} {
		rows, s, err := all(expect.Reference(t, "data", "instruct/"+c.name), Options{})
		if err != nil || len(rows) != c.rows || s.Columns.String() != c.columns {
			t.Errorf("%s: %d rows, %v, %v", c.name, len(rows), s.Columns, err)
		}
	}
	rewritten, err := ReadRewritten(context.Background(),
		expect.Reference(t, "data", "instruct/original_passive_aggressive_data.json"))
	if err != nil || len(rewritten) != 576 || rewritten[575].OutputPassiveAggressive == "" {
		t.Errorf("%d rows, %v", len(rewritten), err)
	}
	_, err = ReadRewritten(context.Background(), expect.Reference(t, "data", "instruct/torchtune_alpaca_tiny.json"))
	expect.Error(t, err, `no column "output_original"`, `"text"`)
}

// hubCache makes a cache as the hub's clients leave it.
func hubCache(t *testing.T, files map[string]string) *hub.Hub {
	t.Helper()
	const commit = "7cae181e29701a8663a07a3ea43c8e105b663ba1"
	cache := t.TempDir()
	repo := filepath.Join(cache, "datasets--owner--name")
	files2 := map[string]string{"refs/main": commit}
	for name, content := range files {
		files2["snapshots/"+commit+"/"+name] = content
	}
	for name, content := range files2 {
		path := filepath.Join(repo, name)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
		expect.OK(t, os.WriteFile(path, []byte(content), 0o666))
	}
	return &hub.Hub{Cache: cache, Offline: true}
}

func TestOpen_FromHub(t *testing.T) {
	parquet := expect.Read(t, "testdata/codec_zstd.parquet")
	hub := hubCache(t, map[string]string{
		"README.md": "", "data/train-00000-of-00002.parquet": parquet, "data/train-00001-of-00002.parquet": parquet,
		"data/test.parquet": "PAR1 damaged PAR1",
	})
	rows, s, err := all("owner/name", Options{Hub: hub})
	if err != nil || len(rows) != 80 || s.Name != "owner/name" ||
		s.Revision != "7cae181e29701a8663a07a3ea43c8e105b663ba1" || s.Rows() != -1 {
		t.Fatalf("%d rows, %v, %+v", len(rows), err, s)
	}
	for i, r := range rows {
		want := sampleRows()[i%40]
		want.Index = i
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
	}
	_, _, err = all("owner/name@main", Options{Hub: hub, Split: "data/test.parquet"})
	expect.Error(t, err, "data/test.parquet: ", "parquet")
	_, _, err = all("owner/name@main", Options{Hub: hub, Split: "test"})
	expect.Error(t, err, `there is no split "test": choose one of "train"`)
	_, _, err = all("owner/other", Options{Hub: hub})
	expect.Error(t, err, "no file owner/other, and on the hub", "hub")
}

// TestOpen_DeclaredSplits opens datasets whose cards declare what belongs to a split, on the hub and in a directory.
func TestOpen_DeclaredSplits(t *testing.T) {
	row := func(answer string) string { return fmt.Sprintf("{\"question\":\"q\",\"answer\":%q}\n", answer) }
	files := map[string]string{
		"README.md": "---\nconfigs:\n- config_name: en\n  data_files: en/*\n- config_name: fr\n  data_files:\n" +
			"  - split: train_sft\n    path: fr/a.jsonl\n---\n",
		"en/a.jsonl": row("1"), "en/b.jsonl": row("2"), "fr/a.jsonl": row("3"), "old.jsonl": row("4"),
	}
	dir := t.TempDir()
	for name, content := range files {
		expect.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	hub := hubCache(t, files)
	for _, c := range []struct{ config, split, answers, err string }{
		{":en", "", "1 2", ""},
		{":fr", "train_sft", "3", ""},
		{":fr/train_sft", "", "3", ""},
		{":fr/train_sft", "other", "3", ""},
		{":fr/x", "", "", `no split "x" of the config "fr": choose one of "train_sft"`},
		{":fr", "", "", `no split "train" of the config "fr": choose one of "train_sft"`},
		{"", "", "", `several configs, "en", "fr": name one, as `},
		{":de", "", "", `no config "de": name one of "en", "fr", as `},
	} {
		for _, spec := range []string{"owner/name", "owner/name@main", dir} {
			rows, s, err := all(spec+c.config, Options{Hub: hub, Split: c.split})
			if c.err != "" {
				expect.Error(t, err, c.err)
				continue
			}
			var answers []string
			for _, r := range rows {
				answers = append(answers, r.Output)
			}
			if err != nil || strings.Join(answers, " ") != c.answers || len(s.files) != len(rows) ||
				!strings.HasSuffix(s.Name, c.config) {
				t.Errorf("%s%s: %q, %v", spec, c.config, answers, err)
			}
		}
	}
	file := filepath.Join(dir, "en/a.jsonl")
	for spec, want := range map[string]struct {
		path   string
		splits bool
	}{StarterSpec: {"", false}, "owner/name": {"", true}, "owner/name:en": {"", true}, dir: {dir, true},
		dir + ":en": {dir, true}, file: {file, false}, file + ":en": {"", true}} {
		if path, splits := LocalPath(spec), HasSplits(spec); path != want.path || splits != want.splits {
			t.Errorf("%s: %q, %v", spec, path, splits)
		}
	}
	_, before, _ := all(dir+":en", Options{})
	expect.OK(t, os.WriteFile(filepath.Join(dir, "en/b.jsonl"), []byte(row("5")), 0o666))
	if _, after, err := all(dir+":en", Options{}); err != nil || after.Revision == before.Revision {
		t.Errorf("other content has the same revision, %v", err)
	}
}

// TestDirectory_LeavesOutWhatTrainWrote reads a directory in which train has run, with the log and the result in it.
func TestDirectory_LeavesOutWhatTrainWrote(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, os.MkdirAll(filepath.Join(dir, "out", "train"), 0o777))
	for name, content := range map[string]string{"a.csv": "question,answer\na,b\n",
		"benchmark_log.csv": "Timestamp,Mode,Wall_Time_s,X\n", "out/run.json": `{"identity":{}}`, "out/metrics.jsonl": "{}",
		"out/tokenizer.json": "{}", "out/train/rank.json": "{}"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	rows, _, err := all(dir, Options{})
	if err != nil || !slices.Equal(rows, []Row{{"a", "", "b", 0}}) {
		t.Errorf("%v, %v", rows, err)
	}
	for name, content := range map[string]string{"out/run.json": "[]", "benchmark_log.csv": "question,answer\nc,d\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666)) // somebody's own
	}
	expect.OK(t, os.Remove(filepath.Join(dir, "a.csv")))
	rows, _, err = all(dir, Options{Split: "*.csv"})
	if err != nil || !slices.Equal(rows, []Row{{"c", "", "d", 0}}) {
		t.Errorf("files of the same names that train did not write: %v, %v", rows, err)
	}
}

// TestHubForms reads CSV and packed files of a hub dataset, whose local names are the same as in the repository.
func TestHubForms(t *testing.T) {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("question,answer\na,b\n")); err != nil {
		t.Fatal(err)
	}
	z.Close()
	zst, err := zstd.NewWriter(nil)
	expect.OK(t, err)
	const bz2 = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x39\x95\xed\x00\x00\x00\x06\xd1\x80" +
		"\x00\x10\x00\x04\x32\x21\xbe\x80\x20\x00\x22\x20\xc9\xa6\x9e\x9e\xa8\x40\x00" +
		"\x0a\x79\x87\x86\x01\x71\x4a\x6a\x0c\xfc\x5d\xc9\x14\xe1\x42\x40\xe6\x57\xb4\x00"
	for _, files := range []map[string]string{
		{"data/train.csv": "question,answer\na,b\n", "data/test.csv": "x\n"},
		{"train-0.csv.gz": packed.String(), "README.md": ""},
		{"train.jsonl.zst": string(zst.EncodeAll([]byte(`{"question":"a","answer":"b"}`), nil))},
		{"train.csv.bz2": bz2},
		{"train.ndjson": `{"question":"a","answer":"b"}`},
		{"train.tsv": "question\tanswer\na\tb\n"},
	} {
		rows, _, err := all("owner/name", Options{Hub: hubCache(t, files)})
		if err != nil || !slices.Equal(rows, []Row{{"a", "", "b", 0}}) {
			t.Errorf("%v: %v, %v", files, rows, err)
		}
	}
}

func TestHubFilesMustAgree(t *testing.T) {
	row := func(q, a string) string { return fmt.Sprintf("{%q:\"a\",%q:\"b\"}\n", q, a) }
	hub := hubCache(t, map[string]string{"train-0.jsonl": row("instruction", "output"), "train-1.jsonl": row("question",
		"answer")})
	rows, _, err := all("owner/name", Options{Hub: hub})
	expect.Error(t, err, "train-1.jsonl", "its columns (instruction=question,output=answer)", "name the columns")
	if len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
	hub = hubCache(t, map[string]string{"train-0.jsonl": row("instruction", "output"),
		"train-1.jsonl": "{\"instruction\":\"a\",\"input\":\"x\",\"output\":\"b\"}\n"})
	rows, _, err = all("owner/name", Options{Hub: hub})
	if err != nil || !slices.Equal(rows, []Row{{"a", "", "b", 0}, {"a", "x", "b", 1}}) {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestOpen_EndsWithContext checks that the hash of a large file, which takes a while, ends with the context.
func TestOpen_EndsWithContext(t *testing.T) {
	path := expect.File(t, "large.jsonl", "")
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("this file system has no sparse files: ", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped by the user")
	stop(why)
	if _, err := Open(ctx, path, Options{}); !errors.Is(err, why) {
		t.Error(err)
	}
}
