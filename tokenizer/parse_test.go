package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"restyle/internal/expect"
	"restyle/internal/hostile"
	"restyle/internal/linear"
)

// testFile returns the contents of a file of testdata.
func testFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	expect.OK(t, err)
	return data
}

func mustParse(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := Parse(data)
	expect.OK(t, err)
	return tok
}

// with returns bytelevel.json or fallback.json with one top-level part, or one field of the model, replaced.
func with(t testing.TB, file, key, part string) []byte {
	t.Helper()
	if field, ok := strings.CutPrefix(key, "model."); ok {
		key, part = "model", `{"`+field+`":`+part+`}`
	}
	return patched(t, file, map[string]json.RawMessage{key: json.RawMessage(part)})
}

//nolint:lll // JSON in one piece
func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ name, key, part, want string }{
		{"model type", "model.type", `"Unigram"`, `model type "Unigram"`},
		{"dropout", "model.dropout", `0.1`, "dropout 0.1"},
		{"prefix", "model.continuing_subword_prefix", `"##"`, `continuing_subword_prefix "##"`},
		{"suffix", "model.end_of_word_suffix", `"</w>"`, `end_of_word_suffix "</w>"`},
		{"version", "version", `"2.0"`, `version "2.0"`},
		{"normalizer", "normalizer", `{"type":"Lowercase"}`, `normalizer "Lowercase"`},
		{"normalizer inside", "normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKC"}]}`,
			`normalizer "NFKC"`},
		{"replace by pattern", "normalizer", `{"type":"Replace","pattern":{"Regex":"a+"},"content":"b"}`, `"a+"`},
		{"replace nothing", "normalizer", `{"type":"Replace","pattern":{"String":""},"content":"b"}`, "has no pattern"},
		{"pre-tokenizer", "pre_tokenizer", `{"type":"BertPreTokenizer"}`, `pre_tokenizer "BertPreTokenizer"`},
		{"split pattern", "pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated","invert":false}`,
			`"\\w+" is not supported`},
		{"split string", "pre_tokenizer", `{"type":"Split","pattern":{"String":" "},"behavior":"Isolated","invert":false}`,
			"without a Regex"},
		{"split behavior", "pre_tokenizer", `{"type":"Split","pattern":{"Regex":` + quote(Qwen2Pattern) +
			`},"behavior":"Removed","invert":false}`, `behavior "Removed"`},
		{"behind ByteLevel", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"ByteLevel"}]}`,
			`ByteLevel after ByteLevel`},
		{"punctuation merged", "pre_tokenizer", `{"type":"Punctuation","behavior":"MergedWithNext"}`, `behavior "MergedWithNext"`},
		{"Metaspace second", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Metaspace","replacement":"_"}]}`, "Metaspace after"},
		{"Metaspace scheme", "pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`, `"last"`},
		{"Metaspace contradiction", "pre_tokenizer",
			`{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false}`, "make them agree"},
		{"space in front of what", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":true}]}`, "add_prefix_space"},
		{"post-processor", "post_processor", `{"type":"BertProcessing"}`, `post_processor "BertProcessing"`},
		{"template without text", "post_processor", `{"type":"TemplateProcessing","single":[],"special_tokens":{}}`,
			"0 times"},
		{"template's token", "post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`, `"x"`},
		{"template's id", "post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[123456]}}}`, "123456"},
		{"template for two", "post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}],"special_tokens":{}}`, "neither"},
		{"decoder: missing", "decoder", `null`, "decoder: missing"},
		{"decoder", "decoder", `{"type":"WordPiece"}`, `decoder "WordPiece"`},
		{"decoder of the other kind", "decoder", `{"type":"Fuse"}`, "does not fit"},
		{"vocab an array", "model.vocab", `["a"]`, "want '{'"},
		{"id too large", "model.vocab", `{"a":4294967295}`, "more than this package can hold"},
		{"id beyond the file", "model.vocab", `{"a":2000000}`, "2000000 is out of range"},
		{"id negative", "model.vocab", `{"a":-1}`, "found '-'"},
		{"id no number", "model.vocab", `{"a":"b"}`, `want a token's id`},
		{"two tokens one id", "model.vocab", `{"a":7,"b":7}`, `"a" and "b" both have id 7`},
		{"one token two ids", "model.vocab", `{"a":7,"a":8}`, `"a" has two ids, 7 and 8`},
		{"one odd token two ids", "model.vocab", `{"☕":7,"☕":8}`, `"☕" has two ids, 7 and 8`},
		{"merge of unknown tokens", "model.merges", `["a nonsense"]`, `"nonsense" is not in the vocabulary`},
		{"merge into an unknown token", "model.merges", `[["z","q"]]`, `"zq" is not in the vocabulary`},
		{"merge of one", "model.merges", `["a"]`, "not two tokens"},
		{"merge of three", "model.merges", `["a b c"]`, "not two tokens"},
		{"merge of three, listed", "model.merges", `[["a","b","c"]]`, "a merge of 3 tokens"},
		{"merges no array", "model.merges", `{}`, "want '['"},
		{"added token without content", "added_tokens", `[{"id":600,"content":""}]`, "no content"},
		{"added token on a token's id", "model.vocab", `{"a":0,"b":3,"c":563}`, `id 563, which "c" has`},
		{"added token's id", "added_tokens", `[{"id":-1,"content":"<x>"}]`, "id -1 is out of range"},
		{"added token's form", "added_tokens", `[{"id":"x"}]`, "added_tokens"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(with(t, "bytelevel.json", test.key, test.part))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %s", err, test.want)
			}
		})
	}
	for _, test := range []struct{ name, data, want string }{
		{"empty", "", "cut short"},
		{"not JSON", "<html>", "'<'"},
		{"an array", "[]", "'['"},
		{"no model", "{}", "no model"},
		{"no merges", `{"model":{"vocab":{}}}`, "no model with a vocab and merges"},
		{"unknown token", `{"model":{"vocab":{"a":0},"merges":[],"unk_token":"?"},"decoder":{"type":"Fuse"}}`,
			`unk_token "?" is not in the vocabulary`},
		{"byte fallback", `{"model":{"vocab":{"a":0},"merges":[],"byte_fallback":true},"decoder":{"type":"ByteLevel"},` +
			`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}}`, "byte_fallback is not supported"},
		{"more behind", `{"model":{"vocab":{},"merges":[]}} x`, "after the end"},
		{"not UTF-8", "{\"\xff\":1}", "not"},
		{"half a surrogate", `{"\ud800":1}`, "surrogate"},
		{"bad escape", `{"\x":1}`, "backslash"},
		{"a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1", "not the JSON"},
		{"deep", `{"a":` + strings.Repeat("[", 1<<20), "cut short"},
		{"deep component", `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 20000) +
			strings.Repeat("]}", 20000) + `}`, "normalizer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Parse([]byte(test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %s", err, test.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	expect.OK(t, os.WriteFile(path, []byte("{"), 0o666))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load: error %v does not name the file", err)
	}
	if _, err := Load(path + "x"); !os.IsNotExist(err) {
		t.Errorf("Load of no file: error %v", err)
	}
}

// TestParse_JSONStrings reads strings of JSON with every escape, and cut off after each byte.
func TestParse_JSONStrings(t *testing.T) {
	for text, want := range map[string]string{`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t",
		`"x\u0041y"`:                 "xAy",
		`"\u00e9\u00ff\u00FF\u09aF"`: "éÿÿ\u09af", `"\ud83d\ude00!"`: "😀!", `"é😀"`: "é😀"} {
		r := jsonReader{data: []byte(text)}
		if got, err := r.str(); err != nil || string(got) != want || r.at != len(text) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
		for n := range len(text) {
			r := jsonReader{data: []byte(text[:n])}
			if got, err := r.str(); err == nil {
				t.Errorf("%s: %q", text[:n], got)
			}
		}
	}
	for text, want := range map[string]string{`"\ud83d"`: "half a surrogate", `"\ude00\ud83d"`: "half a surrogate",
		`"\ud83d\n"`: "half a surrogate", `"\ud83dx"`: "half a surrogate", `"\ud83d\u0041"`: "half a surrogate",
		`"\q"`:     "a backslash",
		`"\u00g0"`: "a backslash", `"\u00@0"`: "a backslash", `"\u00:0"`: "a backslash", `"\u12"`: "a backslash",
		"\"a\x1f\"": "a control character", "\"\\n\x1f\"": "a control character", `"\n`: "cut short", `"a`: "cut short"} {
		r := jsonReader{data: []byte(text)}
		_, err := r.str()
		expect.Error(t, err, want)
	}
}

// TestParse_RefusesGrowth checks that normalizers and decoders that lengthen text too much are refused, and others
// are accepted.
func TestParse_RefusesGrowth(t *testing.T) {
	replace := func(old, text string) string {
		return `{"type":"Replace","pattern":{"String":` + quote(old) + `},"content":` + quote(text) + `}`
	}
	prepend := func(text string) string { return `{"type":"Prepend","prepend":` + quote(text) + `}` }
	metaspace := func(mark string) string { return `{"type":"Metaspace","replacement":` + quote(mark) + `}` }
	many := func(n int, c string) string { return strings.TrimSuffix(strings.Repeat(c+",", n), ",") }
	for _, test := range []struct {
		name, key, list string
		ok              bool
	}{
		{"spaces", "normalizer", prepend("▁") + "," + replace(" ", "▁"), true},
		{"doubled 6 times", "normalizer", many(6, replace("a", "aa")), true},
		{"doubled 7 times", "normalizer", many(7, replace("a", "aa")), false},
		{"half as much again, 10 times", "normalizer", many(10, replace("ab", "aba")), true},
		{"half as much again, 11 times", "normalizer", many(11, replace("ab", "aba")), false},
		{"6 KB of doubling", "normalizer", many(80, replace("a", "aa")), false},
		{"shorter", "normalizer", many(80, replace("aa", "a")), true},
		{"the same length", "normalizer", many(80, replace("a", "b")), true},
		{"shorter, then doubled 7 times", "normalizer", replace("aa", "a") + "," + many(7, replace("a", "aa")), false},
		{"a long text in place of a byte", "normalizer", replace("a", strings.Repeat("b", 65)), false},
		{"a text of 63 in front", "normalizer", prepend(strings.Repeat("b", 63)), true},
		{"a text of 64 in front", "normalizer", prepend(strings.Repeat("b", 64)), false},
		{"in front, then doubled", "normalizer", prepend(strings.Repeat("b", 40)) + "," + replace("b", "bb"), false},
		{"composed twice", "normalizer", many(3, `{"type":"NFC"}`), true},
		{"composed again and again", "normalizer", many(4, `{"type":"NFC"}`), false},
		{"spaces of 32", "pre_tokenizer", metaspace(strings.Repeat("_", 32)), true},
		{"spaces of 33", "pre_tokenizer", metaspace(strings.Repeat("_", 33)), false},
		{"decoded as 64", "decoder", many(6, replace("a", "aa")), true},
		{"decoded as 128", "decoder", many(7, replace("a", "aa")), false},
	} {
		list := map[string]string{"normalizer": "normalizers", "pre_tokenizer": "pretokenizers",
			"decoder": "decoders"}[test.key]
		parts := map[string]json.RawMessage{"normalizer": json.RawMessage("null")}
		parts[test.key] = json.RawMessage(`{"type":"Sequence","` + list + `":[` + test.list + `]}`)
		_, err := Parse(patched(t, "fallback.json", parts))
		if test.ok && err != nil || !test.ok && (err == nil || !strings.Contains(err.Error(), "64 times as long")) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	// The bound is on the normalizer and the pre-tokenizer together, because one follows the other.
	data := patched(t, "fallback.json", map[string]json.RawMessage{
		"normalizer":    json.RawMessage(`{"type":"Sequence","normalizers":[` + many(5, replace("a", "aa")) + `]}`),
		"pre_tokenizer": json.RawMessage(metaspace("___")),
	})
	if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), "normalizer and pre_tokenizer") {
		t.Error(err)
	}
}

// grown returns what the normalizer and the pre-tokenizer make of a text.
func (t *Tokenizer) grown(text string) string {
	s := stretch{text: t.normalize(text)}
	for _, f := range t.preparation {
		s = f(s)
	}
	return s.text
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestParseCut truncates a file everywhere: each time there must be an error, and memory in proportion to the file.
func TestParseCut(t *testing.T) {
	data := testFile(t, "bytelevel.json")
	end := len(strings.TrimRight(string(data), "\n"))
	var before, after runtime.MemStats
	for n := 0; n < end; n += 13 {
		runtime.ReadMemStats(&before)
		if _, err := Parse(data[:n]); err == nil {
			t.Fatalf("no error for the first %d of %d bytes", n, len(data))
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Fatalf("%d bytes allocated for a file of %d", used, n)
		}
	}
}

// TestParseForms reads the forms that files have had over the years.
//
//nolint:lll // JSON in one piece
func TestParseForms(t *testing.T) {
	text := "It's 1984, x  y"
	want := mustParse(t, testFile(t, "bytelevel.json")).Encode(text, EncodeOptions{}).IDs
	for _, test := range []struct{ name, key, part string }{
		{"no type of model", "model.type", "null"},
		{"empty prefix and suffix", "model.continuing_subword_prefix", `""`},
		{"unknown parts", "x", `{"a":[1,{"b":"}"}],"c":"\""}`},
		{"truncation and padding", "truncation", `{"max_length":4,"stride":0}`},
	} {
		tok, err := Parse(with(t, "bytelevel.json", test.key, test.part))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else if got := tok.Encode(text, EncodeOptions{}).IDs; !equal(got, want) {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
	// This vocabulary has holes, escapes and white space; its merges are in the old form, with a header.
	tok := mustParse(t, []byte(strings.ReplaceAll(` { "model" : { "merges" : [ "#version: 0.2" , "a b" , [ "ab" , "\u0063" ] ] ,
		"vocab" : { "\u0061" : 1 , "b" : 3 , "c":4, "ab":9, "abc" : 12, "\ud83d\ude00\n":20 } } , "decoder":{"type":"Fuse"} } `, "\n", "\r\n\t")))
	if got := tok.Encode("abcabb", EncodeOptions{}).IDs; !equal(got, []int32{12, 9, 3}) {
		t.Errorf("abcabb: %v", got)
	}
	if tok.VocabSize() != 6 || tok.MaxID() != 20 || tok.Token(20) != "😀\n" || tok.Token(2) != "" || tok.Bytes(2) != nil {
		t.Errorf("size %d, largest id %d, token 20 %q, token 2 %q", tok.VocabSize(), tok.MaxID(), tok.Token(20), tok.Token(2))
	}
	// If a pair is listed twice, the later rank counts: without the third merge "abc" would be [ab c].
	tok = mustParse(t, []byte(`{"model":{"merges":["a b","b c","a b"],"vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4}},"decoder":{"type":"Fuse"}}`))
	if got := tok.Encode("abcab", EncodeOptions{}).IDs; !equal(got, []int32{0, 4, 3}) {
		t.Errorf("a pair that is listed twice: abcab is %v", got)
	}
	tok = mustParse(t, []byte(`{"model":{"vocab":{"a":1,"b":3,"c":4,"ab":9,"abc":12},"merges":[]},"decoder":{"type":"Fuse"}}`))
	if got := tok.Decode([]int32{12, 2, -1, 1 << 30, 9}, true); got != "abcab" {
		t.Errorf("decoded with ids that no token has: %q", got)
	}
	if id, ok := tok.TokenID("nothing"); ok {
		t.Errorf("the id of a token that is not there: %d", id)
	}
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestIsSpecial(t *testing.T) {
	tok := mustParse(t, testFile(t, "bytelevel.json"))
	bos, _ := tok.TokenID("<|begin_of_text|>")
	cat, _ := tok.TokenID("cat")
	if !tok.IsSpecial(bos) || tok.IsSpecial(cat) || tok.IsSpecial(-1) || tok.IsSpecial(1<<20) {
		t.Error("IsSpecial is wrong")
	}
	if ids := tok.SpecialIDs(); len(ids) != 3 || ids[0] != bos {
		t.Errorf("special ids %v", ids)
	}
	if tok.Token(bos) != "<|begin_of_text|>" || string(tok.Bytes(bos)) != "<|begin_of_text|>" {
		t.Errorf("token %d is %q, %q", bos, tok.Token(bos), tok.Bytes(bos))
	}
	if id, ok := tok.TokenID("Ġthe"); !ok || string(tok.Bytes(id)) != " the" {
		t.Errorf("Ġthe stands for %q", tok.Bytes(id))
	}
}

// products returns files in which counts multiply, by what multiplies. Parse refuses all whose names do not start
// with ok.
//
//nolint:lll // JSON in one piece
func products() map[string][]byte {
	list := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	file := func(parts, vocab, decoders string) []byte {
		return []byte(`{` + parts + `,"decoder":{"type":"Sequence","decoders":[` + decoders + `{"type":"Fuse"}]},"model":{"vocab":{` +
			vocab + `},"merges":[]}}`)
	}
	abc := `"a":0,"b":1`
	template := func(pieces, ids int) string {
		return `"post_processor":{"type":"TemplateProcessing","single":[` + list(pieces, `{"SpecialToken":{"id":"x"}}`) +
			`,{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[` + list(ids, "0") + `]}}}`
	}
	split := func(pattern string) string {
		return `"pre_tokenizer":{"type":"Split","pattern":{"Regex":` + quote(pattern) + `},"behavior":"Isolated"}`
	}
	normalizers := func(list string) string {
		return `"normalizer":{"type":"Sequence","normalizers":[` + list + `]}`
	}
	times16 := `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 16) + `"}`
	short := `{"type":"Replace","pattern":{"String":"` + strings.Repeat("a", 16) + `"},"content":"a"}`
	long := strings.Repeat("a", 500)
	tokens := ""
	for i := range 200 {
		tokens += fmt.Sprintf(`,{"id":%d,"content":"%d%s","normalized":true}`, i+10, i, long)
	}
	return map[string][]byte{
		"ok: a template":               file(template(1, 1), abc, ""),
		"pieces × ids":                 file(template(500, 1000), abc, ""),
		"a template for every text":    file(template(65, 1), abc, ""),
		"components of two bytes":      file(`"normalizer":{"type":"NFC","normalizers":[`+list(3000, "{}")+`]}`, abc, ""),
		"components of one byte":       file(`"normalizer":{"type":"NFC","normalizers":[`+list(3000, "null")+`]}`, abc, ""),
		"normalizers × text":           file(normalizers(list(101, `{"type":"Replace","pattern":{"String":"a"},"content":"b"}`)), abc, ""),
		"depth × members":              file(normalizers(strings.Repeat(`{"type":"Sequence","normalizers":[`, 400)+list(900, `{"type":"Prepend"}`)+strings.Repeat("]}", 400)), abc, ""),
		"growth × tokens":              file(normalizers(times16)+`,"added_tokens":[`+tokens[1:]+`]`, abc, ""),
		"growth × growth":              file(normalizers(times16)+`,"added_tokens":[`+tokens[1:]+`]`, abc, times16+","),
		"tokens that become short":     file(normalizers(times16)+`,"added_tokens":[`+tokens[1:]+`]`, abc, short+","),
		"a token":                      file(`"x":0`, `"`+strings.Repeat("a", 1<<16+1)+`":0`, ""),
		"growth × a vocabulary":        file(`"x":0`, `"`+strings.Repeat("a", 1<<15)+`":0`, times16+","),
		"an added token × text":        file(`"added_tokens":[{"id":0,"content":"`+strings.Repeat("a", 513)+`"}]`, "", ""),
		"choices × choices":            file(split(strings.Repeat("a?", 30)+"b"), abc, ""),
		"counted choices":              file(split(strings.Repeat("a{1,9}", 9)+"b"), abc, ""),
		"alternatives × text":          file(split(strings.TrimSuffix(strings.Repeat("a|", 101), "|")), abc, ""),
		"ok: ranges × characters":      file(split("["+strings.Repeat("!-\U0010ffff", 300)+"]"), abc, ""),
		"a pattern":                    file(split(strings.Repeat("a", 4097)), abc, ""),
		"ok: ids × file":               file(`"x":"`+strings.Repeat(" ", 1<<16)+`"`, `"a":65000`, ""),
		"ok: a number for every token": file(`"added_tokens":[`+strings.ReplaceAll(tokens[1:], long, "")+`]`, abc, ""),
	}
}

// TestParse_ProductsOfCounts checks that no file can make counts multiply: it is refused, or takes memory in proportion
// to its size.
func TestParse_ProductsOfCounts(t *testing.T) {
	for name, data := range products() {
		if _, err := Parse(data); (err == nil) != strings.HasPrefix(name, "ok") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	words := mustParse(t, []byte(`{"added_tokens":[{"id":0,"content":"a","single_word":true}],"decoder":{"type":"Fuse"},`+
		`"model":{"vocab":{"a":0},"merges":[]}}`))
	linear.Test(t, "a word of added tokens", 500, func(n int) { words.Encode(strings.Repeat("a", n), EncodeOptions{}) })
}

// FuzzParse reads hostile files. Every file that is accepted must be usable.
//
//nolint:lll // JSON in one piece
func FuzzParse(f *testing.F) {
	// The seeds are small: the fuzzer would spend its time on minimizing the files of testdata.
	f.Add([]byte(`{"added_tokens":[{"id":5,"content":" ","rstrip":true,"normalized":true}],"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":""},` +
		`"decoder":{"type":"Fuse"},"model":{"unk_token":"a","vocab":{"a":0,"b":1,"ab":2,"":3},"merges":["a b",["ab",""]]}}`))
	f.Add([]byte(`{"version":"1.0","added_tokens":[{"id":9,"content":"<s>","special":true,"lstrip":true,"single_word":true}],"normalizer":{"type":"NFC"},` +
		`"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false}]},` +
		`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B"}},{"Sequence":{"id":"A"}}],"special_tokens":{"B":{"ids":[9]}}},` +
		`"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,"\u0120":2,"ab":3,"\u0120ab":4,"Ã":5,"\u2615":6},"merges":[["a","b"],["\u0120","ab"]]}}`))
	f.Add([]byte(`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},` +
		`"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},` +
		`"model":{"byte_fallback":true,"fuse_unk":true,"unk_token":"u","vocab":{"u":0,"<0xFF>":1,"<0xC3>":2,"<0xA9>":3,"▁":4,"a":5,"▁a":6},"merges":["▁ a"]}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":false},"decoder":{"type":"Metaspace","replacement":"_"},` +
		`"model":{"vocab":{"_":0,"a":1,"_a":2,"a_":3},"merges":["a _","_ a"]}}`))
	f.Add([]byte(`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"aaaa"},{"type":"Prepend","prepend":"aa"},` +
		`{"type":"Replace","pattern":{"String":"aa"},"content":"aaa"}]},"pre_tokenizer":{"type":"Metaspace","replacement":"aa"},` +
		`"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"a"},"content":"aaaa"},{"type":"Fuse"}]},"model":{"vocab":{"a":0,"aa":1},"merges":["a a"]}}`))
	for _, data := range products() {
		f.Add(data)
	}
	// A tokenizer's own character classes are a table with an element for every code point. The tokens may become
	// maxExpansion times as long, and next to each byte is its place in the text that it came from.
	allowed := func(data []byte) int { return 3<<20 + maxExpansion*hostile.Linear(len(data)) }
	for _, text := range hostile.Wide() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var tok *Tokenizer
		var err error
		hostile.Within(t, allowed(data), func() { tok, err = Parse(data) })
		if err != nil {
			return
		}
		for id, piece := range tok.decoder.texts {
			if len(piece) > maxGrowth*maxGrowth*len(tok.texts[id]) { // a normalized token is normalized before it is decoded
				t.Fatalf("token %q decodes to %d bytes", tok.texts[id], len(piece))
			}
		}
		for _, text := range []string{"", "a", " ", "ab a  b <s> \u00e9\u0301 1984\n", "a\xff▁ b"} {
			if grown := tok.grown(text); len(grown) > maxGrowth*len(text) {
				t.Fatalf("%q becomes %d bytes", text, len(grown))
			}
			for _, o := range []EncodeOptions{{}, {AddSpecial: true, Special: Everywhere}, {Special: []Span{{1, 3}, {4, 9}}}} {
				e := tok.Encode(text, o)
				for i, id := range e.IDs {
					if !tok.has(id) || i > 0 && e.Ends[i] < e.Ends[i-1] || int(e.Ends[i]) > len(text) {
						t.Fatalf("%q: ids %v, ends %v", text, e.IDs, e.Ends)
					}
				}
				tok.Decode(e.IDs, true)
			}
		}
	})
}

// TestLoad_RefusesPipes checks that a pipe is an error, and is not waited for.
func TestLoad_RefusesPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "tokenizer.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, dir} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "not a file but") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
