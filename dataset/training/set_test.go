package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"restyle/chat"
	"restyle/dataset"
	"restyle/dataset/output"
	"restyle/internal/expect"
)

// load loads rows, which it writes as JSON.
func load(t testing.TB, e *Encoder, rows any) (*Set, error) {
	t.Helper()
	data, err := json.Marshal(rows)
	expect.OK(t, err)
	return Load(context.Background(), expect.File(t, "rows.json", string(data)), dataset.Options{}, e)
}

type task struct {
	Instruction string `json:"instruction"`
	Output      string `json:"output"`
}

func TestLoad(t *testing.T) {
	e := encoderOf(t, "chatml")
	e.Seq = 40
	long := strings.Repeat("So? ", 40)
	s, err := load(t, e, []task{
		{"What is it?", "It is."},
		{"So?", long},     // truncated
		{long, "It is."},  // the question takes all the room
		{"Is it?", " \n"}, // no answer
		{"What is it?", "It is not."},
	})
	expect.OK(t, err)
	if s.Name != "rows.json" || len(s.Revision) != 64 || s.Format != "Alpaca columns instruction, output" ||
		len(s.Uncertified) != 0 {
		t.Errorf("%q, %q, %q", s.Name, s.Revision, s.Format)
	}
	if s.Rows != 5 || len(s.Examples) != 3 || s.Truncated != 1 || !slices.Equal(s.Empty, []int{2, 3}) {
		t.Errorf("%d rows, %d examples, %d cut, empty %v", s.Rows, len(s.Examples), s.Truncated, s.Empty)
	}
	tokens, trained, largest := 0, 0, int32(0)
	for i, ex := range s.Examples {
		question, answer := []string{"What is it?", "So?", "What is it?"}[i], []string{"It is.", long, "It is not."}[i]
		one, cut, err := e.Encode(dataset.Conversation{Messages: talk("u"+question, "a"+answer), Row: []int{0, 1, 4}[i]})
		expect.OK(t, err)
		if d := cmp.Diff(one, ex, cmp.AllowUnexported(Example{})); d != "" {
			t.Errorf("example %d: %s", i, d)
		}
		if i == 1 && (cut == 0 || cut != s.TruncatedTokens) {
			t.Errorf("%d tokens are cut, the set says %d", cut, s.TruncatedTokens)
		}
		tokens, trained, largest = tokens+len(ex.IDs), trained+ex.Targets(), max(largest, slices.Max(ex.IDs))
	}
	if s.Tokens != tokens || s.Targets != trained || s.MaxID != largest || trained == 0 {
		t.Errorf("%d tokens, %d trained, largest %d, want %d, %d, %d", s.Tokens, s.Targets, s.MaxID, tokens, trained, largest)
	}
}

// TestLoad_SameWithAnyThreads checks that Load returns the same set with any number of threads, over several chunks,
// and that SHA256 differs for different sets.
func TestLoad_SameWithAnyThreads(t *testing.T) {
	e := encoderOf(t, "chatml")
	rows := make([]task, 2*encodeChunk+100)
	for i := range rows {
		rows[i] = task{fmt.Sprintf("What is %d?", i), strings.Repeat("It is. ", i%7) + "So."}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, err := load(t, e, rows)
	expect.OK(t, err)
	runtime.GOMAXPROCS(4)
	second, err := load(t, e, rows)
	expect.OK(t, err)
	if d := cmp.Diff(first, second, cmpopts.IgnoreUnexported(Set{}, Example{})); d != "" {
		t.Errorf("on four threads: %s", d[:min(len(d), 1000)])
	}
	for i, ex := range first.Examples {
		if ex.Row != i {
			t.Fatalf("row %d is at %d", ex.Row, i)
		}
	}
	few := *e
	few.Enough = 100
	if s, err := load(t, &few, rows); err != nil || s.Rows >= 300 ||
		cmp.Diff(first.Examples[:len(s.Examples)], s.Examples, cmpopts.IgnoreUnexported(Example{})) != "" ||
		len(s.Examples) < 100 {
		t.Errorf("enough: %v", err)
	}
	sums := map[string]string{}
	other := func(what string, e *Encoder, rows []task) {
		s, err := load(t, e, rows)
		expect.OK(t, err)
		if as := sums[s.SHA256]; as != "" {
			t.Errorf("%s has the SHA256 of %s", what, as)
		}
		sums[s.SHA256] = what
	}
	rows = rows[:50]
	other("all rows", e, rows)
	all := *e
	all.All = true
	other("everything learned", &all, rows)
	other("one row less", e, rows[1:])
	swapped := slices.Clone(rows)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	other("another order", e, swapped)
}

func TestLoadRefuses(t *testing.T) {
	chatml, short, gemma := encoderOf(t, "chatml"), encoderOf(t, "chatml"), encoderOf(t, "gemma")
	short.Seq = 4
	wrong := encoderOf(t, "chatml")
	wrong.Seq = 0
	many := make([]string, 3000)
	for i := range many {
		many[i] = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`
	}
	many[2500] = `{"messages":[{"role":"assistant","content":"b"}]}`
	many[2600] = `{"messages":[{"role":"assistant","content":"b"}]}`
	for _, c := range []struct {
		name    string
		e       *Encoder
		content string
		want    []string
	}{
		{"no answers", chatml, `[{"instruction":"a","output":""}]`, []string{"columns", "nothing is left to train on",
			"no row has an answer (rows: 1)"}},
		{"questions alone", chatml, `{"messages":[{"role":"user","content":"a"}]}`, []string{"columns",
			"nothing is left to train on", "no row has an answer (rows: 1)"}},
		{"masked", chatml, `[{"instruction":"a","output":"b","train":false},{"instruction":"a","output":"","train":0}]`,
			[]string{"columns", "the rows say of all 2 answers that they are not to be learned (rows: 2)"}},
		{"too long", short, `[{"instruction":"a","output":"b"},{"instruction":"a","output":""}]`,
			[]string{"seq", "the question alone takes all tokens of seq 4 (rows: 1 of 2)", "raise seq"}},
		{"settings", wrong, `[{"instruction":"a","output":"b"}]`, []string{"seq", "seq 0", "at least 2"}},
		{"template", gemma, strings.Join(many, "\n"), []string{"", "rows.json: row 2500", "gemma"}},
		{"bad row", chatml, `[{"instruction":"a","output":"b"},{"instruction":"a","output":7}]`,
			[]string{"", "row 1", "a number"}},
		{"nothing", chatml, `[]`, []string{"", "no rows"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Load(context.Background(), expect.File(t, "rows.json", c.content), dataset.Options{}, c.e)
			expect.Error(t, err, c.want[1:]...)
			setting, _ := errors.AsType[*dataset.SettingError](err)
			if s != nil || (setting != nil) != (c.want[0] != "") || setting != nil && setting.Setting() != c.want[0] {
				t.Errorf("a set beside an error, or the setting %v", setting)
			}
		})
	}
	_, err := Load(context.Background(), filepath.Join(t.TempDir(), "none.json"), dataset.Options{}, chatml)
	if expect.Error(t, err, "none.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.jsonl", "b.jsonl"} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(`{"instruction":"a","output":"b"}`), 0o666))
	}
	if s, err := Load(context.Background(), dir, dataset.Options{}, chatml); err != nil || s.Rows != 2 ||
		!slices.Equal(s.Files, []string{"a.jsonl", "b.jsonl"}) {
		t.Errorf("a directory: %+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, expect.File(t, "rows.json", `[{"instruction":"a","output":"b"}]`), dataset.Options{},
		chatml); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLoad_NamesUncertifiedRows checks that rows without a valid certificate are named, and are trained on
// nevertheless.
func TestLoad_NamesUncertifiedRows(t *testing.T) {
	e := encoderOf(t, "chatml")
	path := filepath.Join(t.TempDir(), "rows.json")
	out, err := output.Create(path)
	expect.OK(t, err)
	for i := range 4 {
		r := dataset.Rewritten{
			Instruction: fmt.Sprintf("What is %d?", i), OutputOriginal: "x", OutputPassiveAggressive: "It is.",
		}
		expect.OK(t, out.Write(r, dataset.Certificate{Checks: []dataset.Check{{ID: "A", Pass: i != 2}}}))
	}
	if _, err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	rows := expect.Read(t, path)
	put := func(path, content string) {
		expect.OK(t, os.WriteFile(path, []byte(content), 0o666))
	}
	put(path, strings.Replace(rows, "What is 1", "Why is 1", 1))
	want := []dataset.Uncertified{
		{Row: 1, Why: "it was changed after it was certified"},
		{Row: 2, Why: "its certificate has a check that failed"},
	}
	for _, columns := range []string{"", "output=output_original"} {
		c, err := dataset.ParseColumns(columns)
		expect.OK(t, err)
		s, err := Load(context.Background(), path, dataset.Options{Columns: c}, e)
		expect.OK(t, err)
		if d := cmp.Diff(want, s.Uncertified); d != "" || len(s.Examples) != 4 {
			t.Errorf("%q: %d examples, %s", columns, len(s.Examples), d)
		}
	}
	certificates := dataset.CertificatePath(path)
	lines := strings.SplitAfter(expect.Read(t, certificates), "\n")
	put(certificates, lines[0])
	put(path, rows)
	s, err := Load(context.Background(), path, dataset.Options{}, e)
	if err != nil || len(s.Uncertified) != 3 || s.Uncertified[0] != (dataset.Uncertified{Row: 1,
		Why: "it has no certificate"}) {
		t.Errorf("%v, %v", s.Uncertified, err)
	}
	put(certificates, "{}\n")
	_, err = Load(context.Background(), path, dataset.Options{}, e)
	expect.Error(t, err, "rows.certificates.jsonl", "line 1")
	put(path, `[{"instruction":"a","output_passive_aggressive":"b"}]`)
	put(certificates, lines[0])
	_, err = Load(context.Background(), path, dataset.Options{}, e)
	expect.Error(t, err, "rows.json", `"input"`, "certificates")
	expect.OK(t, os.Remove(certificates))
	if s, err := Load(context.Background(), path, dataset.Options{}, e); err != nil || s.Uncertified != nil {
		t.Errorf("without certificates: %v, %v", s, err)
	}
}

// TestCommittedSet checks that the module's rows are all certified, fit into the default length, and have targets.
func TestCommittedSet(t *testing.T) {
	e := encoderOf(t, "chatml")
	s, err := Load(context.Background(), "../../data/passive_aggressive_data.json", dataset.Options{}, e)
	expect.OK(t, err)
	if s.Rows != 4608 || len(s.Examples) != 4608 || s.Uncertified != nil || s.Empty != nil || s.Truncated != 0 {
		t.Errorf("%d rows, %d examples, uncertified %v, empty %v, %d cut", s.Rows, len(s.Examples), s.Uncertified, s.Empty,
			s.Truncated)
	}
	train, val := s.Split(0.05, 0)
	if len(train) != 4378 || len(val) != 230 {
		t.Errorf("split into %d and %d", len(train), len(val))
	}
}

// TestLoadDocuments loads rows of plain text: whatever is typed there is no special token, and nothing is lost.
func TestLoadDocuments(t *testing.T) {
	e := encoderOf(t, "raw") // EOS is <|end_of_text|>
	long := strings.Repeat("What is it? ", 20)
	rows := []map[string]string{{"text": "So?"}, {"text": ""}, {"text": "<|eot_id|>" + long}}
	for _, seq := range []int{2, 9, 1000} {
		e.Seq = seq
		s, err := load(t, e, rows)
		expect.OK(t, err)
		documents := map[int][]int32{}
		for _, ex := range s.Examples {
			if ex.Labels[0] != Ignore || !slices.Equal(ex.Labels[1:], ex.IDs[1:]) || len(ex.IDs) > seq {
				t.Errorf("seq %d: row %d has the labels %v of %v", seq, ex.Row, ex.Labels, ex.IDs)
			}
			if ids := documents[ex.Row]; ids == nil {
				documents[ex.Row] = slices.Clone(ex.IDs)
			} else if ids[len(ids)-1] != ex.IDs[0] {
				t.Errorf("seq %d: a chunk of row %d does not continue the one before", seq, ex.Row)
			} else {
				documents[ex.Row] = append(ids, ex.IDs[1:]...)
			}
		}
		for row, r := range rows {
			var special []int32
			for _, id := range documents[row] {
				if e.Tokenizer.IsSpecial(id) {
					special = append(special, id)
				}
			}
			want, ends := "<|begin_of_text|>"+r["text"]+"<|end_of_text|>", 2
			if r["text"] == "" {
				want, ends = "", 0
			}
			if got := e.Tokenizer.Decode(documents[row], false); got != want || len(special) != ends {
				t.Errorf("seq %d: row %d is %q with %d special tokens, want %q", seq, row, got, len(special), want)
			}
		}
		if s.Rows != 3 || !slices.Equal(s.Empty, []int{1}) || !slices.Equal(s.Typed, []int{2}) || s.Truncated != 0 ||
			s.Format != "plain text, each row a document (text)" {
			t.Errorf("%d rows as %q, %d truncated", s.Rows, s.Format, s.Truncated)
		}
	}
	e.Template.EOS = "" // a model without one
	e.Seq = 1000
	s, err := load(t, e, rows)
	if err != nil || e.Tokenizer.Decode(s.Examples[0].IDs, false) != "<|begin_of_text|>So?" || len(s.Empty) != 1 {
		t.Errorf("%v, %+v", err, s)
	}
}

// TestLoad_TypedTokensStayText writes special tokens out in rows, in each place that reaches the model.
func TestLoad_TypedTokensStayText(t *testing.T) {
	e := encoderOf(t, "chatml")
	say := func(role, content string) map[string]string {
		return map[string]string{"role": role, "content": content}
	}
	talk := func(m ...map[string]string) map[string]any { return map[string]any{"messages": m} }
	for _, c := range []struct {
		rows  any
		typed []int
		token string
	}{
		{[]task{{"q", "a"}, {"q", "a<|im_end|>"}, {"<|im_start|>user\nq", "a"}}, []int{1, 2}, "<|im_end|>"},
		{[]task{{"q", "a < b |> c"}, {"Make <b>this</b> bold.", "a</b>"}}, nil, ""},
		{[]task{{"q", "a</s>"}}, []int{0}, "</s>"},
		{[]task{{"q", "a"}, {"[INST] q [/INST]", "a"}}, []int{1}, "[INST]"}, // of another model
		{[]map[string]any{talk(say("user", "q"), say("assistant", "a")),
			talk(say("system", "<|im_end|>"), say("user", "q"), say("assistant", "a"))}, []int{1}, "<|im_end|>"},
	} {
		s, err := load(t, e, c.rows)
		if err != nil || !slices.Equal(s.Typed, c.typed) || s.TypedToken != c.token {
			t.Errorf("%v: %+v, %v", c.rows, s, err)
		}
	}
}

func TestLoadText(t *testing.T) {
	e := encoderOf(t, "raw")
	text := strings.Repeat("What is it? <|eot_id|>\n", 30)
	for _, seq := range []int{2, 3, 7, 64, 100000} {
		e.Seq = seq
		s, err := LoadText(context.Background(), expect.File(t, "book.txt", "\ufeff"+text), e)
		expect.OK(t, err)
		// Every token except the first is a target once, predicted from the one before it.
		ids := s.Examples[0].IDs[:1]
		for i, ex := range s.Examples {
			if len(ex.IDs) != len(ex.Labels) || len(ex.IDs) > seq || len(ex.IDs) < seq && i < len(s.Examples)-1 || ex.Row != i {
				t.Errorf("seq %d: chunk %d of %d has %d tokens", seq, i, len(s.Examples), len(ex.IDs))
			}
			if ex.IDs[0] != ids[len(ids)-1] || ex.Labels[0] != Ignore || !slices.Equal(ex.Labels[1:], ex.IDs[1:]) {
				t.Errorf("seq %d: chunk %d does not continue the one before", seq, i)
			}
			ids = append(ids, ex.IDs[1:]...)
		}
		if got := e.Tokenizer.Decode(ids, false); got != "<|begin_of_text|>"+text {
			t.Errorf("seq %d: %q", seq, got)
		}
		if s.Targets != len(ids)-1 || s.Rows != len(s.Examples) || s.Format != "plain text" || s.Name != "book.txt" ||
			len(s.SHA256) != 64 {
			t.Errorf("seq %d: %d trained of %d, %d rows, %q, %q", seq, s.Targets, len(ids), s.Rows, s.Format, s.Name)
		}
		if train, val := s.Split(0.5, 1); len(s.Examples) > 10 && (len(val) < len(s.Examples)/2-1 ||
			len(train)+len(val) != len(s.Examples)) {
			t.Errorf("seq %d: split into %d and %d", seq, len(train), len(val))
		}
	}
	for _, c := range []struct {
		name, content string
		seq           int
		want          string
	}{
		{"empty", "", 10, "nothing is left to train on"},
		{"only a mark", "\ufeff", 10, "nothing is left to train on"},
		{"not UTF-8", "a\xff", 10, "UTF-8"},
		{"seq", "a", 1, "seq 1"},
	} {
		e.Seq = c.seq
		_, err := LoadText(context.Background(), expect.File(t, "x.txt", c.content), e)
		expect.Error(t, err, c.want)
	}
	e.Seq = 10
	_, err := LoadText(context.Background(), t.TempDir(), e)
	expect.Error(t, err, "directory")
}

func TestShow(t *testing.T) {
	e := encoderOf(t, "chatml")
	ex, _, err := e.Encode(dataset.Conversation{Messages: talk("u\x1b[2J<|im_end|>", "aé\tx<|im_end|>"), Row: 3})
	expect.OK(t, err)
	var b strings.Builder
	expect.OK(t, e.Show(&b, ex, false))
	lines := strings.Split(b.String(), "\n")
	want := []string{
		fmt.Sprintf("row 3: %d tokens, %d target tokens, marked ⟦like this⟧; special tokens are in ‹›",
			len(ex.IDs), ex.Targets()), "",
		`‹<|im_start|>›user`, `\x1b[2J<|im_end|>‹<|im_end|>›`, `‹<|im_start|>›assistant`,
		"⟦é\tx<|im_end|>‹<|im_end|>›⟧", "",
	}
	if d := cmp.Diff(want, lines[:7]); d != "" {
		t.Error(d)
	}
	if len(lines) != 7+len(ex.IDs)+1 {
		t.Errorf("%d lines for %d tokens", len(lines), len(ex.IDs))
	}
	for i, id := range ex.IDs {
		mark := " "
		if ex.Labels[i] != Ignore {
			mark = "+"
		}
		if begin := fmt.Sprintf("%6d %7d %s ", i, id, mark); !strings.HasPrefix(lines[7+i], begin) {
			t.Errorf("line %q does not begin with %q", lines[7+i], begin)
		}
	}
	if last := lines[7+len(ex.IDs)-1]; !strings.HasSuffix(last, "+ ‹<|im_end|>›") {
		t.Errorf("the last token is %q", last)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a control character of the text reaches the terminal")
	}
	b.Reset()
	expect.OK(t, e.Show(&b, ex, true))
	if got := b.String(); !strings.Contains(got, "\x1b[32mé\tx<|im_end|>‹<|im_end|>›\x1b[0m") ||
		strings.Count(got, "\x1b[32m") != strings.Count(got, "\x1b[0m") || strings.Contains(got, "[2J\x1b") {
		t.Errorf("in colour: %q", got)
	}
	expect.Error(t, e.Show(failing{}, ex, false), "row 3", "disk full")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// BenchmarkLoad measures Load on real rows with the real tokenizer, and the tokenizer by itself on the resulting texts.
// With -cpu 1, their ratio is the cost of reading, rendering and masking.
func BenchmarkLoad(b *testing.B) {
	e, path := benchmarked(b)
	tokens := 0
	for b.Loop() {
		s, err := Load(b.Context(), path, dataset.Options{}, e)
		expect.OK(b, err)
		tokens += s.Tokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkTokenizerAlone(b *testing.B) {
	e, path := benchmarked(b)
	c, err := dataset.OpenConversations(b.Context(), path, dataset.Options{})
	expect.OK(b, err)
	var texts []chat.Rendered
	for next, err := c.Next(); err != io.EOF; next, err = c.Next() {
		expect.OK(b, err)
		r, err := e.Template.Render(next.Messages, e.Chat)
		expect.OK(b, err)
		texts = append(texts, r)
	}
	tokens := 0
	for b.Loop() {
		for _, r := range texts {
			tokens += len(e.part(r, 0, len(r.Text)).IDs)
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func benchmarked(b *testing.B) (e *Encoder, path string) {
	e = encoderOf(b, "llama3.2")
	e.Tokenizer, e.Seq = real(b, "llama3"), 512
	return e, expect.Reference(b, "data", "instruct/gpteacher_codegen-instruct.json")
}

// TestJoinCounts joins sets in several orders and checks each of their numbers and lists of rows: a number of the whole
// is the sum, the largest id the largest one, and rows are counted on. A new field of Set is among them.
func TestJoinCounts(t *testing.T) {
	made := func(first, rows int) *Set {
		s := &Set{Name: fmt.Sprint(first), Rows: rows}
		fields := reflect.ValueOf(s).Elem()
		for i := range fields.NumField() {
			if !fields.Type().Field(i).IsExported() {
				continue
			}
			switch v := fields.Field(i).Addr().Interface().(type) {
			case *int:
				*v += first + i
			case *int32:
				*v = int32(first)
			case *[]int:
				*v = []int{i, first}
			}
		}
		s.Rows = rows
		return s
	}
	small, large := made(100, 500), made(300, 700)
	for _, sets := range [][]*Set{{small, large}, {large, small}, {small, small, large}} {
		joined, rows := reflect.ValueOf(Join(sets...)).Elem(), 0
		sum, lists, largest := make([]int, joined.NumField()), make([][]int, joined.NumField()), int32(0)
		for _, s := range sets {
			for f, v := range reflect.ValueOf(s).Elem().Fields() {
				if !f.IsExported() {
					continue
				}
				i := f.Index[0]
				switch v := v.Interface().(type) {
				case int:
					sum[i] += v
				case int32:
					largest = max(largest, v)
				case []int:
					for _, row := range v {
						lists[i] = append(lists[i], rows+row)
					}
				}
			}
			rows += s.Rows
		}
		for f, v := range joined.Fields() {
			if !f.IsExported() {
				continue
			}
			want := any(nil)
			switch i := f.Index[0]; v.Interface().(type) {
			case int:
				want = sum[i]
			case int32:
				want = largest
			case []int:
				want = lists[i]
			default:
				continue
			}
			if !reflect.DeepEqual(v.Interface(), want) {
				t.Errorf("%s is %v, want %v", f.Name, v, want)
			}
		}
	}
}

// TestJoin checks that the numbers of rows, and all other counts, continue from one set to the next.
func TestJoin(t *testing.T) {
	a := &Set{Name: "a", Format: "x", Rows: 3, Examples: []Example{{IDs: []int32{1, 2}, Row: 0},
		{IDs: []int32{3}, Row: 2}}, Empty: []int{1}, Tokens: 3, Targets: 2, MaxID: 3, SHA256: "s"}
	b := &Set{Name: "b", Format: "x", Rows: 2, Examples: []Example{{IDs: []int32{9}, Row: 1}}, Empty: []int{0},
		Uncertified: []dataset.Uncertified{{Row: 1, Why: "why"}}, Truncated: 1, TruncatedTokens: 7, Tokens: 1, MaxID: 9,
		SHA256: "r", Typed: []int{1}, TypedToken: "x", Apart: 1, AnswersApart: 3}
	var counted Set
	counted.add(0, row{truncated: []int{3, 0, 4}})
	counted.add(1, row{truncated: []int{5}, apart: true, examples: make([]Example, 2)})
	if s := counted; s.Truncated != 3 || s.TruncatedTokens != 12 || s.Apart != 1 || s.AnswersApart != 2 ||
		!slices.Equal(s.Empty, []int{0}) {
		t.Errorf("counted %+v", s)
	}
	if Join(a) != a {
		t.Error("a set of one is another")
	}
	a.Files, b.Files = []string{"1"}, []string{"2", "3"}
	a.Used, b.Used = []string{"x", "y"}, []string{"y", "z", "v"}
	j := Join(a, b)
	if !slices.Equal(j.Files, []string{"1", "2", "3"}) ||
		!slices.Equal(j.Used, []string{"x of a", "y", "z of b", "v of b"}) ||
		!slices.Equal(Join(b, a, b).Used, []string{"y", "z of b", "v of b", "x of a"}) {
		t.Errorf("files %q, used %q", j.Files, j.Used)
	}
	if j.Name != "a and b" || j.Format != "x" || j.Rows != 5 || len(j.Examples) != 3 || j.Examples[2].Row != 4 ||
		b.Examples[0].Row != 1 ||
		len(j.Empty) != 2 || j.Empty[1] != 3 || j.Uncertified[0].Row != 4 || j.Truncated != 1 || j.TruncatedTokens != 7 ||
		!slices.Equal(j.Typed, []int{4}) || j.TypedToken != "x" || j.Apart != 1 || j.AnswersApart != 3 || j.Tokens != 4 ||
		j.Targets != 2 || j.MaxID != 9 {
		t.Errorf("%+v", j)
	}
	three := &Set{joined: []origin{{"a", 3}, {"b", 2}, {"c", 4}}}
	if got := three.Place(4) + ", " + three.Place(5) + ", " + three.Place(8); got != "1 of b, 0 of c, 3 of c" {
		t.Errorf("rows of three are named %s", got)
	}
	if j.Place(2) != "2 of a" || j.Place(3) != "0 of b" || j.Place(4) != "1 of b" || a.Place(2) != "2" {
		t.Errorf("rows are named %s, %s and %s", j.Place(2), j.Place(4), a.Place(2))
	}
	if k := Join(b, a); k.SHA256 == j.SHA256 || j.SHA256 == "" {
		t.Error("the order does not matter to the hash")
	}
}
