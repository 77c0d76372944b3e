package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/teacher"
)

func TestUsage(t *testing.T) {
	f := newFolder(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"--rows -1", "--rows"},
		{"--teacher openai", "--model"},
		{"--model m --extra {\"model\":1} --base-url http://127.0.0.1:1/v1 --dry-run", "model"},
		{"--columns nonsense", "columns"},
		{"--emit-batch a", "--model"},
		{"--base-url ftp://127.0.0.1/v1 --model m", "http"},
		{"--base-url http://127.0.0.1:1/v1,http://127.0.0.1:1/v1/ --model m", "twice"},
		{"--judge m --teacher builtin", "--judge-url"},
		{"--judge-url http://127.0.0.1:1/v1", "set --judge as well"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"--source", tasks(t, 10), "--out", f.out}, strings.Fields(c.args)...)
			o := must(t, cli.Usage, args...)
			if !strings.Contains(o.stderr, c.says) || o.stdout != "" {
				t.Error(o)
			}
			if n := strings.Count(o.stderr, "gen: "); n > 1 {
				t.Errorf("%d messages: %v", n, o)
			}
		})
	}
	if files := f.files(t); len(files) > 0 {
		t.Errorf("files left over: %v", files)
	}
}

func TestHelp(t *testing.T) {
	o := must(t, cli.Done, "-h")
	for _, want := range []string{
		"Input", "Output", "Teacher", "Style", "Preview and report", "Batch API",
		"OPENAI_BASE_URL", "TEACHER_MODEL",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("missing %q", want)
		}
	}
	_, flags, _ := strings.Cut(o.stdout, "\nInput")
	text := " " + strings.Join(strings.Fields(flags), " ")
	for flag, value := range map[string]string{
		"source": "starter", "split": "train", "columns": "",
		"rows": "4608 with the built-in rewriter, 576 with a server", "out": "data/passive_aggressive_data.json",
		"teacher": "auto", "base-url": "", "model": "", "style": "passive-aggressive", "temperature": "0.8",
		"max-tokens": "512", "seed": "0", "concurrency": "0", "preview": "0", "dry-run": "",
		"report": "", "comments": "", "emit-batch": "", "ingest-batch": "", "work": "", "restart": "",
	} {
		at := regexp.MustCompile(` --` + flag + ` .*?( --|$)`).FindString(text)
		if at == "" {
			t.Errorf("no --%s", flag)
		} else if value != "" && !strings.Contains(at, "default "+value) {
			t.Errorf("--%s: the default %s is not there: %s", flag, value, at)
		}
	}
	for line := range strings.Lines(o.stdout) {
		if len([]rune(strings.TrimSpace(line))) > 120 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
}

// TestPrecedence sets one setting in .env, in the environment, and on the command line.
func TestPrecedence(t *testing.T) {
	source := tasks(t, 20)
	dir := t.TempDir()
	t.Chdir(dir)
	env := "TEACHER_MODEL=from-dotenv\nOPENAI_BASE_URL=http://127.0.0.1:1/v1\n"
	expect.OK(t, os.WriteFile(".env", []byte(env), 0o600))
	for _, c := range []struct {
		name, env string
		args      []string
		model     string
	}{
		{".env", "", nil, "from-dotenv"},
		{"environment", "from-environment", nil, "from-environment"},
		{"flag", "from-environment", []string{"--model", "from-flag"}, "from-flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"TEACHER_MODEL", "OPENAI_BASE_URL"} {
				t.Setenv(name, "") // so that it is restored
				os.Unsetenv(name)
			}
			if c.env != "" {
				os.Setenv("TEACHER_MODEL", c.env)
			}
			o := must(t, cli.Done, append([]string{"--source", source, "--rows", "5", "--dry-run"}, c.args...)...)
			if !strings.Contains(o.stderr, c.model+", temperature") || !strings.Contains(o.stderr, "127.0.0.1:1") {
				t.Error(o)
			}
		})
	}
}

// TestTeacherAuto checks which teacher follows from the configuration.
func TestTeacherAuto(t *testing.T) {
	source := tasks(t, 20)
	s := newServer(t, nil)
	args := func(more ...string) []string {
		return append([]string{"--source", source, "--rows", "5", "--out", newFolder(t).out}, more...)
	}
	o := must(t, cli.Done, args()...)
	if lastLine(t, o)["teacher"] != "builtin" || strings.Count(o.stderr, "OPENAI_API_KEY") != 1 ||
		!strings.Contains(o.stderr, "--model") {
		t.Errorf("with only a key: %v", o)
	}
	if o := must(t, cli.Done, args("--teacher", "builtin", "--model", "fake")...); lastLine(t,
		o)["teacher"] != "builtin" || strings.Contains(o.stderr, "OPENAI_API_KEY") {
		t.Errorf("with --teacher builtin: %v", o)
	}
	if o := must(t, cli.Done, args("--base-url", s.base())...); lastLine(t, o)["teacher"] != "fake" {
		t.Errorf("with a server of one model: %v", o)
	}
	t.Setenv("OPENAI_API_KEY", "")
	if o := must(t, cli.Done, args()...); lastLine(t, o)["teacher"] != "builtin" ||
		strings.Contains(o.stderr, "OPENAI_API_KEY") {
		t.Errorf("with nothing: %v", o)
	}
	s.set(func() { s.models = []string{"one", "two"} })
	if o := must(t, cli.Usage, args("--base-url", s.base())...); !strings.Contains(o.stderr, "one, two") {
		t.Errorf("with a server of two models: %v", o)
	}
}

// tree returns every file under a directory with its size and time.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	expect.OK(t, err)
	return b.String()
}

func TestDryRunPreviewReport(t *testing.T) {
	source := tasks(t, 60)
	s := newServer(t, nil)
	f := newFolder(t)
	args := []string{"--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake"}

	o := must(t, cli.Done, append(args, "--dry-run", "--price-in", "1", "--price-out", "2")...)
	if calls, _ := s.counts(); calls > 0 {
		t.Errorf("--dry-run sent %d requests", calls)
	}
	if !strings.Contains(o.stdout, "[[CODE_1]]") || !strings.Contains(o.stderr, "prompt tokens") ||
		!strings.Contains(o.stderr, "$") {
		t.Errorf("--dry-run: %v", o)
	}
	if lastLine(t, o)["fit"].(float64) != 20 {
		t.Errorf("--dry-run: %v", o)
	}

	o = must(t, cli.Done, append(args, "--preview", "3")...)
	for _, want := range []string{"── before", "── after", "── checks", "A11", "def keep_"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("--preview does not show %q", want)
		}
	}
	if n := strings.Count(o.stdout, "── after"); n != 3 {
		t.Errorf("--preview 3 shows %d rows", n)
	}
	if written := tree(t, f.dir); written != "" {
		t.Errorf("looking wrote %s", written)
	}

	if o := must(t, cli.Failed, "--out", f.out, "--report"); !strings.Contains(o.stderr, f.out) {
		t.Errorf("--report without a dataset: %v", o)
	}
	must(t, cli.Done, args...)
	o = must(t, cli.Done, "--out", f.out, "--report")
	if last := lastLine(t, o); last["rows"].(float64) != 20 || last["certified"].(float64) != 20 ||
		last["clean"].(float64) != 20 {
		t.Errorf("--report: %v", o)
	}
	if svg := expect.Read(t, filepath.Join(f.out+".work", "tone.svg")); !strings.HasPrefix(svg, "<svg") &&
		!strings.HasPrefix(svg, "<?xml") {
		t.Errorf("the plot is no SVG: %.80s", svg)
	}
	if o := must(t, cli.Done, "--version"); !strings.HasPrefix(o.stdout, "gen ") {
		t.Errorf("--version: %v", o)
	}
}

// TestFinishedRun_AgainChangesNothing runs the same command, and others, in the directory of a finished run.
func TestFinishedRun_AgainChangesNothing(t *testing.T) {
	source := tasks(t, 100)
	s := newServer(t, nil)
	f := newFolder(t)
	args := []string{"--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
	must(t, cli.Done, args...)
	first := f.result(t)
	calls, _ := s.counts()
	times := func() (all []time.Time) {
		for _, path := range []string{f.out, dataset.CertificatePath(f.out), dataset.RejectsPath(f.out)} {
			info, err := os.Stat(path)
			expect.OK(t, err)
			all = append(all, info.ModTime())
		}
		return all
	}

	before := times()
	o := must(t, cli.Done, args...)
	if after := times(); !slices.Equal(before, after) || f.result(t) != first {
		t.Error("the same run touched its files")
	}
	if lastLine(t, o)["outcome"] != "unchanged" || lastLine(t, o)["calls"].(float64) != 0 {
		t.Error(o)
	}
	if again, _ := s.counts(); again != calls {
		t.Errorf("the same run sent %d requests", again-calls)
	}

	// A finished run blocks no other.
	o = must(t, cli.Done, append(args, "--seed", "1")...)
	if f.result(t) == first || !strings.Contains(o.stderr, ".bak") {
		t.Errorf("another seed: %v", o)
	}
	if expect.Read(t, f.out+".bak")+"\n"+expect.Read(t, dataset.CertificatePath(f.out)+".bak")+"\n"+
		expect.Read(t, dataset.RejectsPath(f.out)+".bak") != first {
		t.Error("the files before are not the .bak")
	}

	// --restart starts over.
	o = must(t, cli.Done, append(args, "--restart")...)
	if again := lastLine(t, o); again["replays"].(float64) != 0 || !strings.Contains(o.stderr, "journal.log.bak") ||
		f.result(t) != first {
		t.Errorf("--restart: %v", o)
	}
	expect.Read(t, filepath.Join(f.out+".work", "journal.log.bak"))
}

// TestOtherSettings changes the settings of an unfinished run: gen must refuse them and name each, until --restart.
func TestOtherSettings(t *testing.T) {
	source := t.TempDir()
	for _, name := range []string{"train.json", "test.json"} {
		os.WriteFile(filepath.Join(source, name), []byte(expect.Read(t, tasks(t, 60))), 0o644)
	}
	s := newServer(t, func(c call) bool {
		if calls, _ := c.s.counts(); calls < 10 {
			return false
		}
		status(401, "no more")(c)
		return true
	})
	f := newFolder(t)
	args := []string{"--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake"}
	must(t, cli.Failed, args...)
	style, sameName := filepath.Join(f.dir, "own.style"), filepath.Join(f.dir, "same.style")
	b, err := os.ReadFile("../../voice/styles/passive-aggressive.style")
	expect.OK(t, err)
	os.WriteFile(style, bytes.Replace(b, []byte("name: passive-aggressive"), []byte("name: own"), 1), 0o644)
	os.WriteFile(sameName, append(b, "\n# another\n"...), 0o644)
	s.set(func() { s.models = append(s.models, "other") })
	for name, more := range map[string][]string{
		"split": {"--split", "test"}, "style sha256": {"--style", sameName}, "judge": {"--judge", "fake"},
		"min tone": {"--judge", "fake", "--min-tone", "3"}, "sample": {"--sample", "30"}, "language": {"--language", "any"},
		"fold system": {"--fold-system"}, "seed": {"--seed", "7"}, "rows": {"--rows", "21"},
		"temperature": {"--temperature", "0"},
		"max tokens":  {"--max-tokens", "400"}, "comments": {"--comments"}, "style": {"--style", style},
		"source": {"--source", tasks(t, 61)}, "teacher": {"--model", "other"},
		"extra": {"--extra", `{"top_k": 40}`}, "columns": {"--columns", "output=instruction,instruction=output"},
	} {
		o := must(t, cli.Failed, append(args, more...)...)
		if !strings.Contains(o.stderr, name) && !(name == "source" && strings.Contains(o.stderr, "revision")) ||
			!strings.Contains(o.stderr, "--restart") {
			t.Errorf("other %s: %v", name, o)
		}
	}
	s.set(func() { s.fault = nil })
	must(t, cli.Done, append(args, "--seed", "7", "--restart")...)
	f.sound(t, 20)
}

// TestConcurrency_SameResult checks that the result is the same for any number of concurrent requests, and for several
// servers, even if one is dead.
func TestConcurrency_SameResult(t *testing.T) {
	source := tasks(t, 200)
	want := ""
	dead := "http://127.0.0.1:1/v1"
	for _, n := range []string{"1", "4", "32", "0", "two servers", "one dead", "one dies"} {
		t.Run(n, func(t *testing.T) {
			f := newFolder(t)
			latency := func(uint64) time.Duration { return time.Duration(rand.IntN(6)) * time.Millisecond }
			s, second := newServer(t, nil), newServer(t, nil)
			s.set(func() { s.latency = latency })
			second.set(func() { second.latency = latency })
			args := []string{"--source", source, "--rows", "80", "--out", f.out, "--model", "fake", "--base-url", s.base()}
			switch n {
			case "two servers": // the first waits until the second has been asked half as often, or twenty times
				s.set(func() {
					s.fault = func(call) bool {
						first, _ := s.counts()
						for asked := 0; asked < min(first/2, 20); asked, _ = second.counts() {
							time.Sleep(time.Millisecond)
						}
						return false
					}
				})
				args = append(args, "--base-url", second.base())
			case "one dead":
				args = append(args, "--base-url", dead)
			case "one dies":
				second.set(func() {
					second.fault = func(c call) bool {
						if calls, _ := c.s.counts(); calls > 10 {
							cut(c, 0)
							return true
						}
						return false
					}
				})
				args = append(args, "--base-url", second.base())
			default:
				args = append(args, "--concurrency", n)
			}
			o := must(t, cli.Done, args...)
			if want == "" {
				want = f.result(t)
				f.sound(t, 80)
			}
			if f.result(t) != want {
				t.Error("the result differs")
			}
			if n == "1" && s.most != 1 || n == "32" && s.most > 32 {
				t.Errorf("%d requests at once", s.most)
			}
			if n == "one dead" && !strings.Contains(o.stderr, "not using http://127.0.0.1:1/v1 for now") {
				t.Error(o)
			}
			if calls, _ := second.counts(); n == "two servers" && calls < 20 {
				t.Errorf("the second server was asked %d times", calls)
			}
		})
	}
}

// answerBatch answers a batch file: shuffled, with some lines missing, duplicated, failed and broken.
func answerBatch(t testing.TB, path string, spoil bool) (results string, requests int) {
	t.Helper()
	var lines []string
	random := rand.New(rand.NewPCG(5, 6))
	scanner := bufio.NewScanner(strings.NewReader(expect.Read(t, path)))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		requests++
		var line struct {
			CustomID string `json:"custom_id"`
			Method   string
			URL      string
			Body     json.RawMessage
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil || line.Method != "POST" ||
			line.URL != "/v1/chat/completions" {
			t.Fatalf("line %d: %v: %s", requests, err, scanner.Text())
		}
		q, err := parseQuery(line.Body)
		if err != nil || q.Stream {
			t.Fatalf("line %d: %v, stream %v", requests, err, q.Stream)
		}
		text, finish := q.answer()
		answer, _ := json.Marshal(map[string]any{"id": "b", "custom_id": line.CustomID, "error": nil,
			"response": map[string]any{"status_code": 200, "body": map[string]any{
				"model": "fake", "choices": []any{map[string]any{"index": 0, "finish_reason": finish,
					"message": map[string]string{"role": "assistant", "content": text}}},
				"usage": map[string]int{"prompt_tokens": 1, "completion_tokens": 2}}}})
		failed, _ := json.Marshal(map[string]any{"custom_id": line.CustomID, "response": map[string]any{"status_code": 500,
			"body": map[string]any{"error": map[string]string{"message": "oops"}}}})
		late := fmt.Sprintf(`{"custom_id":%q,"response":null,"error":{"code":"batch_expired","message":"late"}}`,
			line.CustomID)
		switch n := random.IntN(10); {
		case spoil && n == 0: // missing
		case spoil && n == 1:
			lines = append(lines, string(failed))
		case spoil && n == 2:
			lines = append(lines, string(failed), string(answer), string(answer))
		case spoil && n == 3:
			lines = append(lines, late)
		case spoil && n == 4: // cut off
			lines = append(lines, strings.Replace(string(answer), `"finish_reason":`, `"finish_reason":null,"was":`, 1))
		default:
			lines = append(lines, string(answer))
		}
	}
	if spoil {
		lines = append(lines, `{"custom_id":`, "not a line", `{"custom_id":"somebody else's","response":null}`)
	}
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	results = path + ".results"
	expect.OK(t, os.WriteFile(results, []byte(strings.Join(lines, "\n")), 0o644))
	return results, requests
}

// TestBatch_EqualsLive checks that a run by batches makes what a live run makes.
func TestBatch_EqualsLive(t *testing.T) {
	source := tasks(t, 100)
	live := newFolder(t)
	must(t, cli.Done, "--source", source, "--rows", "40", "--out", live.out, "--base-url", newServer(t, nil).base(),
		"--model", "fake")
	f := newFolder(t)
	args := []string{"--source", source, "--rows", "40", "--out", f.out, "--model", "fake"}
	file := filepath.Join(f.dir, "batch.jsonl")
	round := 0
	for {
		if round++; round > 12 {
			t.Fatal("no end of rounds")
		}
		o := invoke(t, append(args, "--emit-batch", file)...)
		if o.code != cli.Done {
			t.Fatal(o)
		}
		if lastLine(t, o)["rows"] != nil {
			break // all answers are there
		}
		results, requests := answerBatch(t, file, round < 4)
		if int(lastLine(t, o)["requests"].(float64)) != requests {
			t.Errorf("round %d: %d requests, %v", round, requests, o)
		}
		o = invoke(t, append(args, "--ingest-batch", results)...)
		switch {
		case o.code == cli.Done:
		case o.code != cli.Stopped || !strings.Contains(o.stderr, "--emit-batch"):
			t.Fatal(o)
		case round < 3 && !(strings.Contains(o.stderr, "3 unreadable lines") &&
			strings.Contains(o.stderr, "the first problem")):
			t.Errorf("round %d: %v", round, o)
		}
		if o.code == cli.Done {
			break
		}
		// Reading the same results again changes nothing.
		if o := invoke(t, append(args, "--ingest-batch", results)...); !strings.Contains(o.stderr, " 0 new answers") {
			t.Errorf("round %d, again: %v", round, o)
		}
	}
	if expect.Read(t, f.out) != expect.Read(t, live.out) {
		t.Error("the batch made other rows than the live run")
	}
	f.sound(t, 40)
	if left, _ := filepath.Glob(filepath.Join(f.dir, "*.tmp")); len(left) > 0 {
		t.Errorf("files left over: %v", left)
	}
}

// TestJudge_ChangesNothingElse checks that a judge adds its opinion and changes nothing else, and then has the judge
// fail.
func TestJudge_ChangesNothingElse(t *testing.T) {
	source := tasks(t, 60)
	args := func(f folder, s *server, more ...string) []string {
		return append([]string{"--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake"},
			more...)
	}
	plain, judged, failing := newFolder(t), newFolder(t), newFolder(t)
	s := newServer(t, nil)
	s.set(func() { s.models = append(s.models, "judge") })
	must(t, cli.Done, args(plain, s)...)
	must(t, cli.Done, args(judged, s, "--judge", "judge")...)
	if expect.Read(t, plain.out) != expect.Read(t, judged.out) {
		t.Error("the judge changed the rows")
	}
	certs, err := dataset.ReadCertificates(dataset.CertificatePath(judged.out))
	expect.OK(t, err)
	for i, c := range certs {
		if c.Judge == nil || c.Judge.Tone != 4 || c.Judge.Model != "judge" || !c.Judge.Professional {
			t.Fatalf("row %d: %+v", i, c.Judge)
		}
	}
	deaf := newServer(t, func(c call) bool {
		c.stream("I would rather not say.", "stop")
		return true
	})
	deaf.set(func() { deaf.models = []string{"judge"} })
	o := must(t, cli.Done, args(failing, s, "--judge", "judge", "--judge-url", deaf.base())...)
	if expect.Read(t, plain.out) != expect.Read(t, failing.out) || lastLine(t, o)["judge_failed"].(float64) != 20 {
		t.Errorf("a judge that says nothing: %v", o)
	}
}

func TestCommentsFlag(t *testing.T) {
	source := tasks(t, 60)
	f := newFolder(t)
	must(t, cli.Done, "--source", source, "--rows", "20", "--out", f.out, "--base-url", newServer(t, nil).base(),
		"--model", "fake", "--comments")
	f.sound(t, 20)
	// The server's standard answer, which may be accepted once or twice, has none.
	made := expect.Read(t, f.out)
	if n, none := strings.Count(made, " of it, obviously\\n"),
		strings.Count(made, "the same words for everybody"); n < 20-none || none > 2 {
		t.Errorf("%d remarks in the code of 20 rows, %d of which have none", n, none)
	}
	f = newFolder(t)
	must(t, cli.Done, "--source", source, "--rows", "20", "--out", f.out, "--teacher", "builtin", "--comments")
	f.sound(t, 20)
}

// TestStyleWithoutOpeners checks that gen refuses a style with too few openers in one line, before any request.
func TestStyleWithoutOpeners(t *testing.T) {
	style := filepath.Join(t.TempDir(), "bare.style")
	expect.OK(t, os.WriteFile(style, []byte("name: bare\n\n[system]\nBe terse.\n\n[lexicon]\n1 fine\n"), 0o644))
	for _, how := range []string{"--dry-run", "--preview=1", "--comments"} {
		o := must(t, cli.Failed, "--source", tasks(t, 5), "--out", newFolder(t).out, "--style", style, how)
		if !strings.Contains(o.stderr, "0 different openers") {
			t.Errorf("%s: %s", how, o.stderr)
		}
	}
}

// TestFormats_HaveTheSameRows checks that every format has the same rows and can be read as a source.
func TestFormats_HaveTheSameRows(t *testing.T) {
	source := tasks(t, 60)
	s := newServer(t, nil)
	var want []dataset.Rewritten
	for _, ext := range []string{".json", ".jsonl", ".parquet"} {
		f := newFolder(t)
		f.out = filepath.Join(f.dir, "deep", "data"+ext)
		card := filepath.Join(f.dir, "README.md")
		must(t, cli.Done, "--source", source, "--rows", "20", "--out", f.out, "--base-url", s.base(), "--model", "fake",
			"--card", card)
		f.sound(t, 20)
		rows, err := dataset.ReadRewritten(t.Context(), f.out)
		expect.OK(t, err)
		if want == nil {
			want = rows
		}
		if !slices.Equal(rows, want) {
			t.Errorf("%s holds other rows", ext)
		}
		if text := expect.Read(t, card); !strings.HasPrefix(text, "---\n") || !strings.Contains(text, "tasks.json") ||
			!strings.Contains(text, "20 rows") {
			t.Errorf("the card: %s", text)
		}
		again := filepath.Join(f.dir, "again.json")
		must(t, cli.Done, "--source", f.out, "--columns", "output=output_original", "--rows", "5", "--teacher", "builtin",
			"--out", again)
	}
}

// TestFewRows runs gen on a source with too few rows, and on one without any.
func TestFewRows(t *testing.T) {
	s := newServer(t, nil)
	f := newFolder(t)
	o := must(t, cli.Done, "--source", tasks(t, 12), "--rows", "50", "--out", f.out, "--base-url", s.base(), "--model",
		"fake")
	if !strings.Contains(o.stderr, "the source has no more") {
		t.Error(o)
	}
	f = newFolder(t)
	o = must(t, cli.Done, "--source", tasks(t, 40), "--rows", "0", "--out", f.out, "--base-url", s.base(), "--model",
		"fake")
	if n := lastLine(t, o)["source_rows"].(float64); n != 40 || strings.Contains(o.stderr, "warning") {
		t.Errorf("--rows 0 read %v rows: %v", n, o)
	}
	empty := filepath.Join(t.TempDir(), "empty.json")
	os.WriteFile(empty, []byte("[]"), 0o644)
	for _, source := range []string{empty, filepath.Join(t.TempDir(), "missing.parquet")} {
		f = newFolder(t)
		o = must(t, cli.Failed, "--source", source, "--teacher", "builtin", "--out", f.out)
		if len(f.files(t)) > 0 || strings.Count(o.stderr, "gen: ") != 1 {
			t.Errorf("%v, and left %v", o, f.files(t))
		}
	}
}

// TestProgress checks the progress without a terminal: separate lines, without control characters. The server delays
// its answers until there is a line.
func TestProgress(t *testing.T) {
	t.Parallel()
	var stdout, stderr said
	line := regexp.MustCompile(`(?m)^\d+/50 rows, .*accepted.*\$.*in flight of 1, 1/1 server`)
	s := newServer(t, func(c call) bool {
		if calls, _ := c.s.counts(); calls > 10 {
			for !line.MatchString(stderr.String()) && c.r.Context().Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
		return false
	})
	code := run(t.Context(), []string{"--source", tasks(t, 120), "--rows", "50", "--out", newFolder(t).out, "--base-url",
		s.base(), "--model", "fake",
		"--concurrency", "1", "--price-in", "1", "--price-out", "1"}, &stdout, &stderr)
	o := outcome{code, stdout.String(), stderr.String()}
	if code != cli.Done || strings.ContainsAny(o.stderr, "\r\x1b") {
		t.Error(o)
	}
	if lastLine(t, o)["cost_usd"] == nil {
		t.Error(o)
	}
}

// TestPartialRows_StayIfMore checks that the rows that an earlier part of a run saved stay if the present part has
// fewer, because it stopped before it had decided them all again.
func TestPartialRows_StayIfMore(t *testing.T) {
	f := newFolder(t)
	g := &gen{options: &options{out: f.out}}
	one := `{"row": 0, "sha256": "` + strings.Repeat("0", 64) + `", "checks": []}` + "\n"
	certificates := dataset.CertificatePath(g.partial())
	for path, text := range map[string]string{g.partial(): "[]", certificates: strings.Repeat(one, 5)} {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	if n := g.partialRows(); n != 5 {
		t.Fatalf("%d rows so far", n)
	}
	for _, accepted := range []int{0, 4} {
		g.savePartial(nil, teacher.Summary{Accepted: accepted}) // it writes nothing
	}
	if expect.Read(t, g.partial()) != "[]" || g.partialRows() != 5 {
		t.Error("they are gone")
	}
}

// TestInterrupt_SavesAndResumes sends Ctrl-C's signal to a run: it must stop in order, save its rows so far, and
// resume.
func TestInterrupt_SavesAndResumes(t *testing.T) {
	t.Parallel()
	source := tasks(t, 2*faultRows)
	want := clean(t, source)
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sent) {
			continue // as nohup sets it
		}
		f := newFolder(t)
		s := newServer(t, nil)
		s.set(func() { s.latency = func(uint64) time.Duration { return 5 * time.Millisecond } })
		reached := make(chan bool, 1000)
		s.set(func() {
			s.fault = func(c call) bool {
				if calls, _ := c.s.counts(); calls >= 15 {
					reached <- true
					hang(c)
					return true
				}
				return false
			}
		})
		args := runArgs(f, source, s.base(), "--first-token-timeout", "1m")
		cmd, stdout, stderr := process(t, args...)
		expect.OK(t, cmd.Start())
		<-reached
		cmd.Process.Signal(sent)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != cli.Stopped {
			t.Errorf("%v: exit code %d\n%s", sent, code, stderr)
		}
		if !strings.Contains(stderr.String(), "run the same command again") || stdout.Len() > 0 {
			t.Errorf("%v: %s%s", sent, stdout, stderr)
		}
		partial := filepath.Join(f.dir, "data.partial.json")
		if rows, err := dataset.ReadRewritten(t.Context(), partial); err != nil || len(rows) == 0 {
			t.Errorf("%v: what was made so far: %d rows, %v", sent, len(rows), err)
		}
		s.outlive(t)
		s.set(func() { s.fault = nil })
		before, _ := s.counts()
		must(t, cli.Done, args...)
		if f.result(t) != want {
			t.Errorf("%v: the result differs", sent)
		}
		if after, _ := s.counts(); after-before > 30 {
			t.Errorf("%v: asked %d times after the stop", sent, after-before)
		}
		if files := f.files(t); !slices.Equal(files, finished) {
			t.Errorf("%v: there are %v", sent, files)
		}
	}
}

// TestProgress_SpeedOfLastHalfMinute checks that the progress line has the speed of the last half a minute.
func TestProgress_SpeedOfLastHalfMinute(t *testing.T) {
	p := &progress{g: &gen{options: &options{}}}
	begin, line := time.Now(), ""
	for second := range 100 {
		tokens := 50 * min(second, 50) // it answers nothing any more in the second half
		line = p.line(teacher.Summary{Target: 1000, Accepted: min(second, 50), Out: tokens},
			begin.Add(time.Duration(second)*time.Second))
		if want := "50 tokens/s"; second > 0 && second <= 50 && !strings.Contains(line, want) {
			t.Fatalf("after %d seconds: %s", second, line)
		}
	}
	if strings.Contains(line, "tokens/s") || strings.Contains(line, "ETA") {
		t.Errorf("after half a minute without an answer: %s", line)
	}
}
