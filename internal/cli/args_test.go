package cli

import (
	"flag"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"restyle/internal/hostile"
)

// several returns flags of several kinds.
func several() *Flags {
	f := New("x", "", io.Discard, io.Discard)
	f.Group("All")
	f.Add(new(bool), "quick", "")
	f.Add(new(string), "only", "")
	f.Add(new(int), "threads", "")
	f.Add(new(time.Duration), "wait", "")
	f.Add(new(float64), "share", "")
	f.Add(new(string), "fused", "")
	f.Optional("fused", "all")
	f.Add(new(int), "batch", "")
	f.Add(new(string), "device", "")
	f.Add(new(int), "max-tokens", "")
	f.Add(new(float64), "lr", "peak learning rate, the first")
	f.Add(new(string), "schedule", "learning rate after the warmup")
	f.Add(new(int), "accumulate", "micro-batches (gradient accumulation); a step has several")
	return f
}

// TestRead checks how arguments are divided among flags, their values and paths, and what is said about wrong ones.
func TestRead(t *testing.T) {
	for _, c := range []struct{ args, flags, paths, says string }{
		{"a b", "", "a b", ""},
		{"a --quick b", "quick=true", "a b", ""},
		{"--quick true a --quick False", "quick=false", "a", ""},
		{"--quick=0 1", "quick=false", "1", ""},
		{"--quick=maybe", "", "", `--quick "maybe": must be true or false`},
		{"--only x a -threads 2 b", "only=x threads=2", "a b", ""},
		{"--only=x a", "only=x", "a", ""},
		{"--only -x --threads -2", "only=-x threads=-2", "", ""},
		{"a --quick -- --only x", "quick=true", "a --only x", ""},
		{"- a --only", "", "", "--only needs a value"},
		{"--only --quick", "", "", "--only needs a value, and --quick is a flag: if it is the value, write --only=--quick"},
		{"--only --x", "only=--x", "", ""},
		{"--threads many", "", "", `--threads "many": must be a whole number`},
		{"--threads 9999999999999999999", "", "", "must be a whole number"},
		{"--wait 3", "", "", `--wait "3": must be a duration such as 30s or 5m`},
		{"--share half", "", "", `--share "half": must be a number`},
		{"--fused", "fused=all", "", ""},
		{"--fused all,-attention --quick", "fused=all,-attention quick=true", "", ""},
		{"--fused=some", "fused=some", "", ""},
		{"--fused --quick", "fused=all quick=true", "", ""},
		{"--fused -threads 3", "fused=all threads=3", "", ""},
		{"--fused -- a", "fused=all", "a", ""},
		{"—quick", "", "", "—quick begins with a dash: flags begin with hyphens"},
		{"--qucik", "", "", "did you mean --quick?"},
		{"--quik a", "", "", "there is no flag --quik; did you mean --quick?"},
		{"--thread=3", "", "", "there is no flag --thread; did you mean --threads?"},
		{"--Batch_Size 3", "", "", "did you mean --batch?"},
		{"--learning-rate 3", "", "", "there is no flag --learning-rate; did you mean --lr?"},
		{"--gradient_accumulation_steps 3", "", "", "did you mean --accumulate?"},
		{"--per_device_train_batch_size 3", "", "", "did you mean --batch?"},
		{"--max_new_tokens 3", "", "", "did you mean --max-tokens?"},
		{"--zzz", "", "", "there is no flag --zzz"},
		{"--zzz --wrong -h", "", "", "help requested"},
	} {
		f := several()
		paths, err := f.read(strings.Fields(c.args))
		var flags []string
		f.Visit(func(fl *flag.Flag) { flags = append(flags, fl.Name+"="+fl.Value.String()) })
		switch {
		case err != nil || c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) || c.says == "" {
				t.Errorf("%s: %v, want %q", c.args, err, c.says)
			}
		case strings.Join(flags, " ") != c.flags || strings.Join(paths, " ") != c.paths:
			t.Errorf("%s: flags %q, paths %q", c.args, flags, paths)
		}
	}
}

// FuzzRead checks that no arguments make read fail otherwise than with an error of one line, and that paths are among
// the arguments, in their order.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a --quick b", "--fused\nall", "--\n-h", "--threads=\n-\n--=", "—fused", "-\x00=3"} {
		f.Add(seed)
	}
	for _, text := range hostile.Wide() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		var paths []string
		var err error
		hostile.Within(t, hostile.Linear(2*len(text)), func() { paths, err = several().read(args) })
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: an error of several lines: %v", args, err)
		}
		for _, p := range paths {
			i := slices.Index(args, p)
			if i < 0 {
				t.Fatalf("%q: the path %q is no argument", args, p)
			}
			args = args[i+1:]
		}
	})
}

// TestCommand_KeepsCalledName checks that a hint names another command as this one was called.
func TestCommand_KeepsCalledName(t *testing.T) {
	here := func(path string) bool { return path == "cmd/chat" }
	elsewhere := func(string) bool { return false }
	cached := "/root/.cache/go-build/4e/" + strings.Repeat("4edf0076", 8) + "-d/train"
	for _, c := range []struct {
		self  string
		isDir func(string) bool
		want  string
	}{
		{"train", here, "chat"},
		{"./train", here, "./chat"},
		{"bin/train", here, "bin/chat"},
		{"/usr/local/bin/train", elsewhere, "/usr/local/bin/chat"},
		{"/my tools/train", elsewhere, "'/my tools/chat'"},
		{"/tmp/go-build302668938/b001/exe/train", here, "go run ./cmd/chat"},
		{"/tmp/go-build302668938/b001/exe/train", elsewhere, "go run restyle/cmd/chat"},
		{cached, here, "go run ./cmd/chat"},
		{"/src/go-builder/train", here, "/src/go-builder/chat"},
	} {
		if got := commandLike(c.self, "chat", c.isDir); got != c.want {
			t.Errorf("%s: %s, want %s", c.self, got, c.want)
		}
	}
}

// TestShellQuote checks that a shell reads a quoted word as it was, and that a plain one has no quotes.
func TestShellQuote(t *testing.T) {
	words := []string{"out", "runs/out-1", "a b", "it's", "", "~", "$HOME", "a;b", "50%", "ü", "*", "a\nb", "\\"}
	for _, word := range words {
		quoted := ShellQuote(word)
		got, err := exec.Command("sh", "-c", "printf %s "+quoted).Output()
		if err != nil || string(got) != word {
			t.Errorf("%q: sh reads %s as %q, %v", word, quoted, got, err)
		}
	}
	if got := ShellQuote("runs/50%-ü"); got != "runs/50%-ü" {
		t.Errorf("a plain word became %s", got)
	}
}
