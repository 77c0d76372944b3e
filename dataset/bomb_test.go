package dataset

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"

	"github.com/klauspost/compress/zstd"
	parquetgo "github.com/parquet-go/parquet-go"
)

// zstandard packs a text with zstd.
func zstandard(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	expect.OK(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

// bzipped is a row of 90 MiB, packed with bzip2.
const bzipped = "QlpoOTFBWSZTWXvsw5sFfjwZgJAEABAoId4IAAggAFCmAABFUepiH6k9SszB9nKWKICqomkQERVAC61IVR7icXd+SKiAqqJ+YoKy" +
	"TKazhNpV5gK/HAIBQAAAEEAAYQCajIVAS1IVAS5igrJMprNNPEmoACdxAiFAAEAAABBAAGGYE1TTKhCtqlCFeLuSKcKEhm+7+vA="

// A bomb is a file that would take far more memory than it has bytes, and the error that reading it ends with.
type bomb struct{ name, content, says string }

func bombs(t testing.TB) []bomb {
	const row, end = `{"instruction":"a","output":"b`, `"}` + "\n"
	many := func(item string) string { return strings.Repeat(item+",", 12_000) + item }
	bz2, err := base64.StdEncoding.DecodeString(bzipped)
	expect.OK(t, err)
	// A dictionary has a value once, however many rows have it.
	type pair struct {
		Instruction string `parquet:"instruction,dict"`
		Output      string `parquet:"output,dict"`
	}
	var parquet bytes.Buffer
	w := parquetgo.NewGenericWriter[pair](&parquet, parquetgo.Compression(&parquetgo.Zstd))
	_, wrong := w.Write(slices.Repeat([]pair{{"a", strings.Repeat("b", 1<<16)}}, 3000))
	expect.OK(t, errors.Join(wrong, w.Close()))
	blank := strings.Repeat(strings.Repeat(" ", 4000)+"\n", 2100) // 8 MiB
	keys := ""
	for i := range maxItems {
		keys += fmt.Sprintf(`,"%d":0`, i)
	}
	talk := func(messages string) string { return `{"messages":[` + messages + "]}" }
	const user, call = `{"role":"user","content":"a"}`, `{"from":"function_call","value":"{\"name\":\"f\"}"}`
	window := "\x28\xb5\x2f\xfd\x00\x88\x09\x00\x00{"
	return []bomb{
		{"columns.csv", "instruction,output\na" + strings.Repeat(",", 1<<20), "line 2 has more than 10000 values"},
		{"header.csv", many("a"), "line 1 has more than 10000 values"},
		{"tabs.tsv", strings.Repeat("\t", 1<<20), "line 1 has more"},
		{"columns.csv.gz", packed(t, strings.Repeat(",", 15<<20)), "line 1 has more"},
		{"keys.jsonl", row + `"` + keys + "}", "an object of more than 10000 keys"},
		{"key.json", "[" + row + `"` + keys + "}]", "an object of more than 10000 keys"},
		{"messages.jsonl", talk(many(user)), "has 12001 messages"},
		{"calls.jsonl", talk(user + "," + many(call)), "has 12002 messages"},
		{"parts.jsonl", talk(`{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":""},`, 60_000) + `{}]}`),
			"more than 100000 values"},
		{"empty parts.jsonl", talk(strings.Repeat("0,", maxValues) + "0"), "more than 100000 values"},
		{"tools.jsonl", row + `","tools":[` + strings.Repeat("{},", maxValues) + `{}]}`,
			`column "tools" more than 100000 values`},
		{"turns.jsonl", row + `","history":[` + strings.Repeat("[],", maxValues) + `[]]}`,
			`column "history" more than 100000`},
		{"mask.jsonl", row + `","loss_mask":[` + strings.Repeat("0,", maxValues) + `0]}`, "must be 0 or 1"},
		{"variables.jsonl", row + `","chat_template_kwargs":{"a":0` + keys + "}}", "of more than 10000 keys"},
		{"line.jsonl.gz", packed(t, row+strings.Repeat("b", 17<<20)), "longer than 16 MiB"},
		{"members.jsonl.gz", strings.Repeat(packed(t, row+end+blank), 20), "more than 100 times its size"},
		{"rows.csv.gz", packed(t, "instruction,output\n"+strings.Repeat("a,b\n", 400_000)), "more than 100 times its size"},
		{"frames.jsonl.zst", strings.Repeat(zstandard(t, row+end+blank), 20), "more than 100 times its size"},
		{"window.jsonl.zst", window, "its window"},
		{"line.jsonl.bz2", string(bz2), "longer than 16 MiB"},
		{"dictionary.parquet", parquet.String(), "more than 100 times its size"},
		{"blank lines.json.gz", packed(t, "{"+strings.Repeat("\n", 80<<20)), "incomplete"},
	}
}

// TestBombs_AreRefusedEarly checks that a bomb is refused before it has taken more than its bytes explain: the rows
// before it may have taken as much as the file may unpack to.
func TestBombs_AreRefusedEarly(t *testing.T) {
	for _, b := range bombs(t) {
		t.Run(b.name, func(t *testing.T) {
			var err error
			hostile.Within(t, hostile.Linear(len(b.content))+64*int(maxUnpacked(0)), func() {
				err = readRows(t, b.name, b.content, 400_000)
			})
			expect.Error(t, err, b.says)
		})
	}
}

// TestLimits_BothSides has rows that just fit, and the same with one more of what is limited.
func TestLimits_BothSides(t *testing.T) {
	columns := func(n int) string {
		names := "instruction,output"
		for i := range n - 2 {
			names += fmt.Sprintf(",%d", i)
		}
		return names + "\n" + strings.Repeat("a,", n-1) + "a\n"
	}
	for _, c := range []struct {
		name string
		of   func(n int) string
		most int
		says string
	}{
		{"messages.jsonl", func(n int) string {
			return `{"messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, n-1) + `{"role":"user","content":"a"}]}`
		}, maxItems, "has 10001 messages"},
		{"values.jsonl", func(n int) string { // besides, two brackets before the list, its own, and two commas
			return `{"messages":[{"role":"user","content":"a","x":[` + strings.Repeat("0,", n-5) + `0]}]}`
		}, maxValues, "more than 100000 values"},
		{"keys.jsonl", func(n int) string {
			keys := ""
			for i := range n - 2 {
				keys += fmt.Sprintf(`,"%d":0`, i)
			}
			return `{"instruction":"a","output":"b"` + keys + "}"
		}, maxItems, "an object of more than 10000 keys"},
		{"columns.csv", columns, maxItems, "line 1 has more than 10000 values"},
	} {
		if err := readRows(t, c.name, c.of(c.most), 1); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		expect.Error(t, readRows(t, c.name, c.of(c.most+1), 1), c.says)
	}
	for size, want := range map[int64][2]int64{0: {256 << 20, 16 << 20}, 1000: {256<<20 + 16_000, 16<<20 + 100_000},
		1 << 60: {(256 + 16*240) << 20, 16<<20 + 100<<50}} {
		if got := [2]int64{childMemory(size), maxUnpacked(size)}; got != want {
			t.Errorf("a file of %d bytes may take %d", size, got)
		}
	}
}

// readRows writes a file and reads up to most of its rows.
func readRows(t testing.TB, name, content string, most int) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(content), 0o600))
	c, err := OpenConversations(t.Context(), path, Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	for range most {
		if _, err := c.Next(); err != nil {
			return err
		}
	}
	return nil
}

// FuzzRows reads the first rows of files of every kind but parquet, which another process reads.
func FuzzRows(f *testing.F) {
	for _, b := range bombs(f) {
		f.Add(filepath.Ext(b.name), []byte(b.content))
	}
	f.Add(".jsonl", []byte(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`))
	f.Add(".jsonl", []byte(`{"messages":[`+strings.Repeat("0,", 99_000)+`0]}`))
	f.Fuzz(func(t *testing.T, ext string, data []byte) {
		if strings.HasPrefix(string(data), "PAR1") || strings.ContainsAny(ext, "/\x00") || len(ext) > 100 {
			return
		}
		allowed := hostile.Linear(len(data))
		if slices.ContainsFunc(packings, func(p packing) bool { return strings.HasPrefix(string(data), p.magic) }) {
			allowed += 16 * maxRecord // a row has up to 16 MiB, however small it was packed, and is copied at each step
		}
		hostile.Within(t, allowed, func() { readRows(t, "a"+ext, string(data), 2) })
	})
}
