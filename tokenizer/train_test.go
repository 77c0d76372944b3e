package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"restyle/internal/expect"
)

// mergesOf returns the merges of a tokenizer.json, each as "left right".
func mergesOf(t testing.TB, data []byte) []string {
	t.Helper()
	doc, err := readDocument(data)
	expect.OK(t, err)
	var merges []string
	expect.OK(t, doc.Model.eachMerge(func(left, right []byte) error {
		merges = append(merges, string(left)+" "+string(right))
		return nil
	}))
	return merges
}

// plainMerges trains by counting everything again in each round. It follows only the rule in Train's comment.
func plainMerges(words map[string]int, size int) []string {
	tr := newTrainer(nil)
	type word struct {
		tokens []int32
		count  int
	}
	var all []word
	for text, count := range words {
		w := word{count: count}
		for i := range len(text) {
			w.tokens = append(w.tokens, tr.ids[text[i:i+1]])
		}
		all = append(all, w)
	}
	var merges []string
	for len(tr.tokens) < size {
		counts := make(map[pair]int)
		for _, w := range all {
			for i := 1; i < len(w.tokens); i++ {
				counts[pair{w.tokens[i-1], w.tokens[i]}] += w.count
			}
		}
		if len(counts) == 0 {
			break
		}
		best, first := pair{}, true
		for p, n := range counts {
			if first || n > counts[best] || n == counts[best] && (p.left < best.left || p.left == best.left &&
				p.right < best.right) {
				best, first = p, false
			}
		}
		text := tr.tokens[best.left] + tr.tokens[best.right]
		id, ok := tr.ids[text]
		if !ok {
			id = int32(len(tr.tokens))
			tr.tokens, tr.ids[text] = append(tr.tokens, text), id
		}
		merges = append(merges, alphabet().write(tr.tokens[best.left])+" "+alphabet().write(tr.tokens[best.right]))
		for k := range all {
			tokens := all[k].tokens
			for i := 0; i+1 < len(tokens); i++ {
				if tokens[i] == best.left && tokens[i+1] == best.right {
					tokens = slices.Replace(tokens, i, i+2, id)
				}
			}
			all[k].tokens = tokens
		}
	}
	return merges
}

func TestTrainIsThePlainRule(t *testing.T) {
	for _, test := range []struct {
		name, text string
		size       int
	}{
		{"overlaps", "aaaaaaa aaa aa aaaaaaaaa abababab ababa", 270},
		{"prose", strings.Repeat("the cat sat on the mat; a cat, the mat! ", 3) + "that hat 1234 99 é é", 400},
		{"one token by two ways", "abc abc xabc zbc abcbc bcabc cabc abcabc ab bc bc ab", 300},
		{"nothing", "", 300},
		{"no pairs", "a b c", 300},
	} {
		for _, pattern := range []string{GPT2Pattern, Llama3Pattern, Qwen2Pattern} {
			data, err := Train(slices.Values([]string{test.text}), TrainOptions{VocabSize: test.size, Pattern: pattern})
			expect.OK(t, err)
			want := plainMerges(countWords(slices.Values([]string{test.text}), []splitter{patterns[pattern]}), test.size)
			if got := mergesOf(t, data); !slices.Equal(got, want) {
				t.Errorf("%s, %s: merges %q, want %q", test.name, pattern, got, want)
			}
		}
	}
}

// TestReferenceTraining trains on each corpus.txt, as a whole and line by line, and compares with what is recorded
// next to it.
func TestReferenceTraining(t *testing.T) {
	for _, path := range expect.Recordings(t, "corpus.txt") {
		dir, corpus := filepath.Dir(path), expect.Read(t, path)
		for file, texts := range map[string][]string{
			"merges_whole.txt": {corpus}, "merges_lines.txt": strings.SplitAfter(corpus, "\n"),
		} {
			want := strings.Split(strings.TrimSuffix(expect.Read(t, filepath.Join(dir, file)), "\n"), "\n")
			got, err := Train(slices.Values(texts), TrainOptions{VocabSize: 256 + len(want), Pattern: GPT2Pattern})
			expect.OK(t, err)
			if !slices.Equal(mergesOf(t, got), want) {
				t.Errorf("%s/%s: %q, want %q", dir, file, mergesOf(t, got), want)
			}
			if file == "merges_whole.txt" {
				checkSameTokenizer(t, got, filepath.Join(dir, "tokenizer.json"), corpus)
			}
		}
		checkWords(t, corpus, filepath.Join(dir, "words_whole.tsv"))
	}
}

// checkWords compares the words that a text is split into with a table of words and counts.
func checkWords(t *testing.T, text, path string) {
	t.Helper()
	counts := make(map[string]int)
	for word, n := range countWords(slices.Values([]string{text}), []splitter{patterns[GPT2Pattern]}) {
		counts[alphabet().write(word)] = n
	}
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for _, line := range lines {
		if word, count, _ := strings.Cut(line, "\t"); strconv.Itoa(counts[word]) != count {
			t.Errorf("%q: %d times, want %s", word, counts[word], count)
		}
	}
	if len(lines) != len(counts) {
		t.Errorf("%d different words, want %d", len(counts), len(lines))
	}
}

// checkSameTokenizer compares the vocabulary, the merges and the tokens of a text.
func checkSameTokenizer(t *testing.T, data []byte, path, text string) {
	t.Helper()
	mine, err := Parse(data)
	expect.OK(t, err)
	theirs, err := Load(path)
	expect.OK(t, err)
	merges := mergesOf(t, []byte(expect.Read(t, path)))
	if !slices.Equal(mine.texts, theirs.texts) || !slices.Equal(mergesOf(t, data), merges) ||
		!slices.Equal(mine.Encode(text, EncodeOptions{}).IDs, theirs.Encode(text, EncodeOptions{}).IDs) {
		t.Errorf("the vocabulary, the merges or the tokens are not those of %s", path)
	}
}

func TestTrainOptions(t *testing.T) {
	texts := func() func(func(string) bool) {
		return slices.Values([]string{"In 1984 there were 12345 of 1984 and 1984."})
	}
	data, err := Train(texts(), TrainOptions{VocabSize: 300, SingleDigits: true, Special: []string{"<s>", "</s>", `<"\x>`},
		BOS: "<s>"})
	expect.OK(t, err)
	tok, err := Parse(data)
	expect.OK(t, err)
	for id := range int32(tok.VocabSize()) {
		if text := tok.Decode([]int32{id}, false); strings.ContainsAny(text, "0123456789") && len(text) > 1 {
			t.Errorf("token %d is %q: digits should have tokens of their own", id, text)
		}
	}
	got := tok.Encode("1984</s>", EncodeOptions{AddSpecial: true, Special: Everywhere})
	bos, _ := tok.TokenID("<s>")
	eos, _ := tok.TokenID("</s>")
	if len(got.IDs) != 6 || got.IDs[0] != bos || got.IDs[5] != eos || eos != tok.MaxID()-1 {
		t.Errorf("1984</s> is %v; <s> is %d, </s> is %d", got.IDs, bos, eos)
	}
	for _, test := range []struct {
		o    TrainOptions
		want string
	}{
		{TrainOptions{VocabSize: 255}, "VocabSize 255"},
		{TrainOptions{VocabSize: maxID + 1}, "VocabSize 2097152 with 0 special tokens: must be"},
		{TrainOptions{VocabSize: 257, Special: []string{"a", "b"}}, "2 special tokens"},
		{TrainOptions{VocabSize: 300, Pattern: `\w+`}, `"\\w+" is not supported`},
		{TrainOptions{VocabSize: 300, BOS: "<s>"}, `BOS "<s>"`},
		{TrainOptions{VocabSize: 300, Special: []string{""}}, "no content"},
		{TrainOptions{VocabSize: 300, Special: []string{"<s>", "<s>"}}, `"<s>"`},
		{TrainOptions{VocabSize: 300, Special: []string{"a"}}, `"a"`},
	} {
		if _, err := Train(texts(), test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want one with %q", test.o, err, test.want)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	texts := benchTexts(b)
	corpus := strings.Split(texts["shakespeare"]+texts["oz"]+texts["code"][:700_000], "\n")
	b.SetBytes(2_000_000)
	for b.Loop() {
		if _, err := Train(slices.Values(corpus), TrainOptions{VocabSize: 2048}); err != nil {
			b.Fatal(err)
		}
	}
}
