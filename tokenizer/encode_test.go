package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"restyle/internal/expect"
	"restyle/internal/hostile"
)

// TestMergeIsThePlainRule compares both ways of merging with a loop that searches for the best pair each time.
func TestMergeIsThePlainRule(t *testing.T) {
	for _, file := range []string{"bytelevel.json", "fallback.json"} {
		tok := mustParse(t, testFile(t, file))
		m := tok.encoder().merger
		rnd := rand.New(rand.NewPCG(1, 2))
		letters := []string{"a", "e", "h", "n", "s", "t", "th", "he", "in", "er", "ing ", " the", "▁", "▁th", "é", "\xff"}
		for n := range 400 {
			word := ""
			for range n % 90 {
				word += letters[rnd.IntN(len(letters))]
			}
			m.start(word)
			want := slices.Clone(m.symbols)
			for {
				lowest, at := uint32(noRank), 0
				for i := 1; i < len(want); i++ {
					if rank := m.rank(want[i-1].id, want[i].id); rank < lowest {
						lowest, at = rank, i
					}
				}
				if lowest == noRank {
					break
				}
				want[at-1].id = m.made[lowest]
				want = slices.Delete(want, at, at+1)
			}
			for name, merge := range map[string]func(){"short": m.mergeShort, "long": m.mergeLong} {
				m.start(word)
				m.rankAll()
				merge()
				same := slices.EqualFunc(m.symbols, want, func(a, b symbol) bool { return a.id == b.id && a.at == b.at })
				if !same {
					t.Fatalf("%s, %q: %s words give %v, want %v", file, word, name, m.symbols, want)
				}
			}
		}
	}
}

func TestOffsets(t *testing.T) {
	for _, test := range []struct {
		file, key, part, text string
		want                  []string // the text of each token
	}{
		{"bytelevel.json", "x", "null", "the cat😀", []string{"the", " ", "cat", "\xf0", "\x9f", "\x98", "\x80"}},
		{"bytelevel.json", "x", "null", "a [R] \nb", []string{"a", " ", "[R] \n", "b"}},
		{"bytelevel.json", "x", "null", "x <mask>", []string{"x", " <mask>"}},
		// The white space that [R] absorbs starts with another added token, two spaces. Hugging Face returns both.
		{"bytelevel.json", "x", "null", "[R]  \nb", []string{"[R]  \n", "", "", "b"}},
		// NFC replaces two characters of three bytes by one of two; the first of its tokens covers all of them.
		{"bytelevel.json", "normalizer", `{"type":"NFC"}`, "we\u0301t", []string{"w", "e\u0301", "", "t"}},
		// What Prepend and Metaspace put before the text covers nothing: it belongs to the first token.
		{"fallback.json", "x", "null", "the the", []string{"the", " the"}},
		{"fallback.json", "x", "null", "€ a", []string{"", "\xe2", "\x82", "\xac", " a"}},
		{"fallback.json", "normalizer", `{"type":"Replace","pattern":{"String":"the"},"content":""}`, "atheb",
			[]string{"a", "theb"}},
	} {
		tok := mustParse(t, with(t, test.file, test.key, test.part))
		e := tok.Encode(test.text, EncodeOptions{Special: Everywhere})
		var got []string
		at := int32(0)
		for _, end := range e.Ends {
			got = append(got, test.text[at:end])
			at = end
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: the tokens stand for %q, want %q", test.text, got, test.want)
		}
	}
}

func TestTokensOfSpan(t *testing.T) {
	e := Encoding{IDs: make([]int32, 6), Ends: []int32{0, 3, 3, 5, 9, 9}} // BOS, 0-3, none, 3-5, 5-9, EOS
	for _, test := range []struct {
		span       Span
		first, end int
	}{
		{Span{0, 9}, 1, 5}, {Span{0, 3}, 1, 2}, {Span{0, 1}, 1, 2}, {Span{2, 4}, 1, 4}, {Span{3, 5}, 3, 4},
		{Span{5, 6}, 4, 5}, {Span{8, 9}, 4, 5},
		{Span{4, 4}, 3, 3}, {Span{9, 9}, 6, 6}, {Span{8, 20}, 4, 6}, {Span{9, 20}, 6, 6},
	} {
		if first, end := e.Tokens(test.span); first != test.first || end != test.end {
			t.Errorf("%v: tokens [%d, %d), want [%d, %d)", test.span, first, end, test.first, test.end)
		}
	}
}

// TestUserTextStaysText writes special tokens in every way across the borders of the special spans.
func TestUserTextStaysText(t *testing.T) {
	tok := mustParse(t, testFile(t, "bytelevel.json"))
	eot, _ := tok.TokenID("<|eot_id|>")
	count := func(text string, special ...Span) int {
		n := 0
		for _, id := range tok.Encode(text, EncodeOptions{Special: special}).IDs {
			if id == eot {
				n++
			}
		}
		return n
	}
	const token = "<|eot_id|>"
	text := token + "user " + token + token // the template's, the user's, the template's
	user := Span{len(token), 2*len(token) + 5}
	if n := count(text, Span{0, user.Start}, Span{user.End, len(text)}); n != 2 {
		t.Errorf("%d special tokens, want the template's 2", n)
	}
	if n := count(text); n != 0 {
		t.Errorf("%d special tokens without a span", n)
	}
	for cut := range len(token) - 1 { // the user's text and the template's join into the spelling of a token
		if n := count(token, Span{cut + 1, len(token)}); n != 0 {
			t.Errorf("a token of which %d bytes are the user's is special", cut+1)
		}
		if n := count(token, Span{0, cut + 1}, Span{cut + 1, len(token)}); n != 0 {
			t.Errorf("a token across two spans, cut at %d, is special", cut+1)
		}
		// What the user writes before it cannot hide the template's token either.
		if n := count(token[:cut]+token, Span{cut, cut + len(token)}); n != 1 {
			t.Errorf("behind %q the template's token is gone", token[:cut])
		}
	}
	for _, spans := range [][]Span{{{5, 4}}, {{4, 6}, {5, 8}}, {{-1, 4}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for the spans %v", spans)
				}
			}()
			tok.Encode(text, EncodeOptions{Special: spans})
		}()
	}
}

// TestNotUTF8 encodes bytes that are not characters: none may be lost, and decoding must show them as U+FFFD.
func TestNotUTF8(t *testing.T) {
	for _, file := range []string{"bytelevel.json", "fallback.json"} {
		for _, patch := range []string{"null", `{"type":"NFC"}`} {
			tok := mustParse(t, with(t, file, "normalizer", patch))
			for _, text := range []string{"\xff", "a\x80\u0301b", "\xe2\x82", "x\xf0\x9f y", "\xed\xa0\x80", "é\xc3",
				"\xff \xff1\xff"} {
				e := tok.Encode(text, EncodeOptions{})
				var raw []byte
				for _, id := range e.IDs {
					raw = append(raw, tok.Bytes(id)...)
				}
				if string(raw) != text {
					t.Errorf("%s: %q became the bytes %q", file, text, raw)
				}
				if decoded := tok.Decode(e.IDs, false); !utf8.ValidString(decoded) {
					t.Errorf("%s: %q decodes to %q", file, text, decoded)
				}
				checkTiling(t, text, e)
			}
		}
	}
}

// TestLongWords encodes 256 KiB that nothing splits. Quadratic time would take hours, longer than go test's own limit.
//
//nolint:lll // JSON in one piece
func TestLongWords(t *testing.T) {
	toks := map[string]*Tokenizer{
		"bytelevel": mustParse(t, testFile(t, "bytelevel.json")),
		"fallback":  mustParse(t, testFile(t, "fallback.json")),
		"nfc":       mustParse(t, with(t, "bytelevel.json", "normalizer", `{"type":"NFC"}`)),
		"no split":  mustParse(t, with(t, "bytelevel.json", "pre_tokenizer", `{"type":"ByteLevel","use_regex":false}`)),
		"rstrip": mustParse(t, patched(t, "bytelevel.json",
			map[string]json.RawMessage{"post_processor": json.RawMessage("null"),
				"added_tokens": json.RawMessage(`[{"id":600,"content":"<r>","rstrip":true,"lstrip":true},{"id":601,"content":"  ","rstrip":true}]`)})),
	}
	for name, tok := range toks {
		for _, unit := range []string{"a", " ", "\n", "1", "the", "\u0301", "\u0323\u0307", "中", "\xff", "<r> ", "<|eot_id",
			"\u00a0 ", "▁"} {
			text := strings.Repeat(unit, 1<<18/len(unit))
			e := tok.Encode(text, EncodeOptions{Special: Everywhere})
			if n := len(e.Ends); n != len(e.IDs) || int(e.Ends[n-1]) != len(text) || !slices.IsSorted(e.Ends) {
				t.Errorf("%s: the tokens of %q do not tile it", name, unit)
			}
		}
	}
}

func TestEncode_Concurrent(t *testing.T) {
	tok := mustParse(t, testFile(t, "bytelevel.json"))
	texts := append(variantTexts(t), string(testFile(t, "texts.json")), string(testFile(t, "make_testdata.py")))
	o := EncodeOptions{AddSpecial: true, Special: Everywhere}
	var want []Encoding
	for _, text := range texts {
		want = append(want, tok.Encode(text, o))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				for i, text := range texts {
					if e := tok.Encode(text, o); !slices.Equal(e.IDs, want[i].IDs) || !slices.Equal(e.Ends, want[i].Ends) {
						t.Errorf("%q: not what it is alone", texts[i])
					}
				}
			}
		})
	}
	all.Wait()
}

// TestSkipNormalizedSpecial checks the intended difference from Hugging Face: a special token that is matched in
// normalized text is skipped like any other.
func TestSkipNormalizedSpecial(t *testing.T) {
	tok := mustParse(t, with(t, "fallback.json", "added_tokens",
		`[{"id":2,"content":"</s>","special":true,"normalized":true}]`))
	if got := tok.Decode([]int32{2}, true); got != "" {
		t.Errorf("</s> decodes to %q", got)
	}
	if got := tok.Encode("</s>", EncodeOptions{Special: Everywhere}).IDs; !slices.Equal(got, []int32{2}) {
		t.Errorf("</s> is %v", got)
	}
}

// TestReferenceClasses compares the classes of all code points, and which of them make a contraction when case is
// folded.
func TestReferenceClasses(t *testing.T) {
	for _, path := range expect.Recordings(t, "unicode_classes.json") {
		var want struct {
			Space      [][2]rune `json:"s"`
			Letter     [][2]rune `json:"L"`
			Number     [][2]rune `json:"N"`
			AddedWord  [][2]rune `json:"added_word"`
			AddedSpace [][2]rune `json:"added_space"`
			Fold       map[string][]rune
		}
		expect.OK(t, json.Unmarshal([]byte(expect.Read(t, path)), &want))
		checkClass(t, "s", space, want.Space)
		checkClass(t, "L", letter, want.Letter)
		checkClass(t, "N", number, want.Number)
		checkClass(t, "added_word", word, want.AddedWord)
		checkClass(t, "added_space", space, want.AddedSpace)
		checkFolds(t, want.Fold)
	}
}

func checkClass(t *testing.T, name string, class uint8, want [][2]rune) {
	t.Helper()
	in := make(map[rune]bool)
	for _, r := range want {
		for c := r[0]; c <= r[1]; c++ {
			in[c] = true
		}
	}
	for c, classes := range classes() {
		if got := classes&class != 0; got != in[rune(c)] {
			t.Errorf("%s: U+%04X is in the class: %v, want %v", name, c, got, in[rune(c)])
		}
	}
}

// checkFolds puts every code point in the place of every letter of a contraction.
func checkFolds(t *testing.T, fold map[string][]rune) {
	t.Helper()
	suffixes := []string{"s", "t", "re", "ve", "m", "ll", "d"}
	for c := range rune(unicode.MaxRune + 1) {
		var is []string // the letters that c represents
		for letter, same := range fold {
			if slices.Contains(same, c) {
				is = append(is, letter)
			}
		}
		for _, suffix := range suffixes {
			for i := range suffix {
				form := "'" + suffix[:i] + string(c) + suffix[i+1:]
				want := slices.ContainsFunc(is, func(letter string) bool {
					return slices.Contains(suffixes, suffix[:i]+letter+suffix[i+1:])
				})
				if n := contraction(form+"x", true); (n == len(form)) != want {
					t.Errorf("%q: a contraction of %d bytes, want %v", form, n, want)
				}
			}
		}
	}
}

// fuzzed returns tokenizers of every kind.
func fuzzed(t testing.TB) map[string]*Tokenizer {
	return map[string]*Tokenizer{
		"llama3": mustParse(t, testFile(t, "bytelevel.json")),
		"qwen2":  mustParse(t, with(t, "bytelevel.json", "normalizer", `{"type":"NFC"}`)),
		"gpt2":   mustParse(t, with(t, "bytelevel.json", "pre_tokenizer", `{"type":"ByteLevel"}`)),
		"smollm2": mustParse(t, with(t, "bytelevel.json", "pre_tokenizer",
			`{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel"}]}`)),
		"llama2": mustParse(t, testFile(t, "fallback.json")),
		"metaspace": mustParse(t, with(t, "fallback.json", "pre_tokenizer",
			`{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}`)),
	}
}

// FuzzEncode checks that the tokens tile the text, that a byte-level tokenizer without special tokens returns the text
// when decoded, and that encoding a second time, from the cache, gives the same tokens.
func FuzzEncode(f *testing.F) {
	toks := fuzzed(f)
	for _, text := range variantTexts(f) {
		f.Add(text, 3, 7)
	}
	f.Fuzz(func(t *testing.T, text string, from, to int) {
		for name, tok := range toks {
			var e Encoding
			hostile.Within(t, hostile.Linear(len(text)), func() { e = tok.Encode(text, EncodeOptions{}) })
			checkTiling(t, text, e)
			if again := tok.Encode(text, EncodeOptions{}); !slices.Equal(again.IDs, e.IDs) || !slices.Equal(again.Ends, e.Ends) {
				t.Errorf("%s: %q: %v the first time, %v the second", name, text, e, again)
			}
			for _, id := range e.IDs {
				if tok.IsSpecial(id) {
					t.Errorf("%s: %q has the special token %q", name, text, tok.Token(id))
				}
			}
			// Exceptions are NFC, tokens that absorb white space, and the token that decodes to broken bytes.
			if tok.vocab.byteLevel && name != "qwen2" && !strings.Contains(text, "[R]") && !strings.Contains(text, "Ångström") {
				raw := ""
				for _, id := range e.IDs {
					raw += string(tok.Bytes(id))
				}
				if raw != text {
					t.Errorf("%s: %q came back as %q", name, text, raw)
				}
				if decoded := tok.Decode(e.IDs, false); utf8.ValidString(text) && decoded != text {
					t.Errorf("%s: %q decoded as %q", name, text, decoded)
				}
			}
			if 0 <= from && from <= to {
				checkTiling(t, text, tok.Encode(text, EncodeOptions{Special: []Span{{from, to}}}))
			}
			checkTiling(t, text, tok.Encode(text, EncodeOptions{Special: Everywhere}))
		}
	})
}

// TestSmallVocabularies checks rules that a large vocabulary seldom shows.
//
//nolint:lll // JSON in one piece
func TestSmallVocabularies(t *testing.T) {
	encode := func(json, text string, want ...int32) {
		t.Helper()
		tok := mustParse(t, []byte(json))
		for range 2 { // the second time from the cache
			if got := tok.Encode(text, EncodeOptions{}).IDs; !slices.Equal(got, want) {
				t.Errorf("%q is %v, want %v", text, got, want)
			}
		}
	}
	// A mark may merge with the text before it, so the text must not be cut there.
	encode(`{"decoder":{"type":"Fuse"},"model":{"vocab":{"▁":0,"a":1,"a▁":2},"merges":["a ▁"]}}`, "a▁a▁", 2, 2)
	encode(`{"decoder":{"type":"Fuse"},"model":{"vocab":{"▁":0,"a":1,"▁a":2,"▁▁":3},"merges":["▁ a","▁ ▁"]}}`, "a▁a▁▁", 1,
		2, 3)
	// A character is unknown as a whole if one of its bytes has no token.
	encode(`{"decoder":{"type":"Fuse"},"model":{"byte_fallback":true,"unk_token":"u","vocab":{"u":0,"<0xC3>":1,"<0xA8>":2},"merges":[]}}`, "é", 0)
	encode(`{"decoder":{"type":"Fuse"},"model":{"byte_fallback":true,"unk_token":"u","vocab":{"u":0,"<0xC3>":1,"<0xA8>":2},"merges":[]}}`, "è", 1, 2)
	// These words differ only in zero bytes; long ones differ in their last byte.
	tok := mustParse(t, testFile(t, "bytelevel.json"))
	zero, _ := tok.find([]byte{0})
	for n := 1; n < 9; n++ {
		if got := tok.Encode(strings.Repeat("\x00", n), EncodeOptions{}).IDs; !slices.Equal(got,
			slices.Repeat([]int32{zero}, n)) {
			t.Errorf("%d zero bytes are %v", n, got)
		}
	}
	tok = mustParse(t, []byte(`{"decoder":{"type":"Fuse"},"model":{"vocab":{"a":0,"y":1,"x":2,"xx":3,"xxxx":4,"xxxxxxxx":5,"xxxxxxxxxxxxxxxx":6},`+
		`"merges":["x x","xx xx","xxxx xxxx","xxxxxxxx xxxxxxxx"]}}`))
	for n := 20; n < 26; n++ {
		for id, last := range []string{"a", "y"} { // y is a with the bits of 24, the length
			ids := tok.Encode(strings.Repeat("x", n)+last, EncodeOptions{}).IDs
			if got := ids[len(ids)-1]; got != int32(id) {
				t.Errorf("%d x and %s end with token %d", n, last, got)
			}
		}
	}
}

// TestStreamHolds passes one byte per token and checks which text is returned after each: whole characters, and U+FFFD
// for bytes that cannot become one, as soon as that is known. An encoded surrogate is known to be invalid only at its
// end, as in Python's incremental decoder (codecs.getincrementaldecoder("utf-8")("replace")).
func TestStreamHolds(t *testing.T) {
	tok := mustParse(t, testFile(t, "bytelevel.json"))
	for _, test := range []struct {
		bytes string
		want  []string // after each byte, and at the end
	}{
		{"a\u00e9", []string{"a", "", "\u00e9", ""}},
		{"\U0001f600", []string{"", "", "", "\U0001f600", ""}},
		{"\xed\xa0\x80", []string{"", "", "\ufffd\ufffd\ufffd", ""}},
		{"\xed\xbf\xbf", []string{"", "", "\ufffd\ufffd\ufffd", ""}},
		{"\xed\xa0a", []string{"", "", "\ufffd\ufffda", ""}},
		{"\xed\xa0", []string{"", "", "\ufffd\ufffd"}},
		{"\xed\x9f\xbf", []string{"", "", "\ud7ff", ""}},
		{"\xf4\x90\x80", []string{"", "\ufffd\ufffd", "\ufffd", ""}},
		{"\xe2\x82x", []string{"", "", "\ufffdx", ""}},
		{"\xe2\x82", []string{"", "", "\ufffd"}},
		{"\x80\xff", []string{"\ufffd", "\ufffd", ""}},
	} {
		s := tok.Stream(false)
		for i := range len(test.bytes) {
			id, ok := tok.find([]byte{test.bytes[i]})
			if !ok {
				t.Fatalf("no token for the byte %x", test.bytes[i])
			}
			if got := s.Add(id); got != test.want[i] {
				t.Errorf("%q: after %d bytes it gives out %q, want %q", test.bytes, i+1, got, test.want[i])
			}
		}
		if got := s.Flush(); got != test.want[len(test.bytes)] || s.Held() != 0 {
			t.Errorf("%q: at the end it gives out %q, want %q; %d bytes held", test.bytes, got, test.want[len(test.bytes)],
				s.Held())
		}
	}
}

// FuzzStream checks that the joined output of a stream is the whole text decoded at once, and that it never has part of
// a character.
func FuzzStream(f *testing.F) {
	toks := fuzzed(f)
	f.Add([]byte("\x01\x00\x02\x00\xf0\x01"), true)
	f.Add([]byte("\xb4\x00\x52\x00\xb4\x00\x41\x00"), false)
	f.Fuzz(func(t *testing.T, data []byte, skip bool) {
		for name, tok := range toks {
			var ids []int32
			for i := 1; i < len(data); i += 2 {
				ids = append(ids, (int32(data[i-1])|int32(data[i])<<8)%(tok.MaxID()+2))
			}
			s, joined := tok.Stream(skip), ""
			for _, id := range ids {
				part := s.Add(id)
				if !utf8.ValidString(part) {
					t.Errorf("%s: %v: part %q of a stream", name, ids, part)
				}
				joined += part
			}
			joined += s.Flush()
			var whole string
			hostile.Within(t, hostile.Linear(len(data)), func() { whole = tok.Decode(ids, skip) })
			if joined != whole {
				t.Errorf("%s: %v: the stream gives %q, the whole %q", name, ids, joined, whole)
			}
			if tok.vocab.byteLevel {
				raw := ""
				for _, id := range ids {
					if !skip || !tok.IsSpecial(id) {
						raw += string(tok.Bytes(id))
					}
				}
				if utf8.ValidString(raw) && raw != whole {
					t.Errorf("%s: %v: decoded %q, the bytes are %q", name, ids, whole, raw)
				}
			}
		}
	})
}

func Example() {
	// Any tokenizer.json does: Load("Llama-3.2-1B/tokenizer.json"). This one is made on the spot.
	text := "she sells sea shells by the sea shore"
	data, err := Train(slices.Values([]string{text}), TrainOptions{VocabSize: 280, Special: []string{"<s>", "</s>"},
		BOS: "<s>"})
	if err != nil {
		fmt.Println(err)
		return
	}
	tok, err := Parse(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := tok.Encode("sea shell</s>", EncodeOptions{AddSpecial: true})
	for _, id := range e.IDs {
		fmt.Printf("%s|", tok.Token(id))
	}
	fmt.Println()
	fmt.Println(tok.Decode(e.IDs, true))
	// Output:
	// <s>|s|e|a|Ġshe|ll|<|/|s|>|
	// sea shell</s>
}
