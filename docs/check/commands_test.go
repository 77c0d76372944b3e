// Package check has only tests: that documents, scripts and messages name flags and programs that exist.
package check

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"restyle/internal/expect"
)

const root = "../.."

// commands are the flags of each command and measurement, such as "train" and "bench step".
type commands map[string][]string

// build builds the commands into a directory and returns their flags, as -h lists them.
func build(t *testing.T, bin string) commands {
	if testing.Short() {
		t.Skip("links all commands")
	}
	goTool(t, "build", "-ldflags=-s -w -X restyle/internal/cli.version=v9.8.7", "-o", bin+"/", "./cmd/...")
	all := commands{}
	run := func(name string, args ...string) string {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = bin // which has no .env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	add := func(name string) string {
		args := append(strings.Fields(name), "-h")
		help := run(args[0], args[1:]...)
		all[name] = []string{"help"}
		for _, m := range regexp.MustCompile(`(?m)^  --([a-z0-9-]+)`).FindAllStringSubmatch(help, -1) {
			all[name] = append(all[name], m[1])
		}
		return help
	}
	for _, name := range []string{"gen", "train", "chat", "export", "serve", "bench"} {
		add(name)
		if v := run(name, "--version"); !strings.HasPrefix(v, name+" v9.8.7 ") || !strings.Contains(v, " go") {
			t.Errorf("%s --version prints %q", name, v)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  bench (\w+)`).FindAllStringSubmatch(run("bench", "-h"), -1) {
		add("bench " + m[1])
	}
	if len(all) < 15 || len(all["train"]) < 40 || len(all["bench step"]) < 10 {
		t.Fatalf("-h lists only %v", all)
	}
	return all
}

func goTool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args, err, out)
	}
}

// of returns the flags of a command and its measurements.
func (all commands) of(command string) (flags []string) {
	for name, of := range all {
		if name == command || command == "" || strings.HasPrefix(name, command+" ") {
			flags = append(flags, of...)
		}
	}
	return flags
}

// texts returns the documents, scripts and sources by path. Recorded outputs keep the commands that wrote them,
// and internal/cli has names of flags in other programs.
func texts(t *testing.T) map[string]string {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		t.Skipf("no list of files: %v", err)
	}
	read := regexp.MustCompile(`\.(md|sh|py|ya?ml|go)$|(^|/)Dockerfile$|^\.ci/`)
	recorded := regexp.MustCompile(`^docs/bench/(h200|cpu)/|testdata/|_test\.go$|^internal/(mutants|cli)/`)
	all := map[string]string{}
	for path := range strings.SplitSeq(string(list), "\x00") {
		if !read.MatchString(path) || recorded.MatchString(path) {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(root, path)); err == nil {
			all[path] = strings.ReplaceAll(string(text), "\\\n", " ")
		}
	}
	return all
}

var (
	// A command line starts at the start of a line or of code, or after a path or another program.
	line = regexp.MustCompile("(?m)(?:cmd/|bin/|work/|\\brestyle |--rm |[`\"'(]|^[ \\t#/]*(?:\\$ )?|: |\\blog \\S+ )" +
		"(gen|train|chat|export|serve|bench)\\b\"?( [^\\n`|#;&>]*)")
	flags   = regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z0-9-]*)`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
	word    = regexp.MustCompile(`^ ([a-z]+)\b`)
	help    = regexp.MustCompile(`^( [a-z]+)? -h\b`)
	program = regexp.MustCompile(`go (?:run|install) (\./[\w/]+\w)`)
	source  = regexp.MustCompile(`^cmd/(\w+)/`)
)

// others are flags of other programs that documents and messages name: .ci/run, internal/claims, internal/makedata,
// PyTorch's measurements, containers, NVIDIA's tools, pip, WSL, TensorBoard, zstd, llama.cpp, vLLM, torchrun, mpirun,
// srun and systemd, and two that stand for any.
var others = strings.Fields(`all field diversity kind topic most mix learn whole follow-ups followed round train mode
	bitsandbytes batches metrics gpus rm tool set std gpu-architecture upgrade update shutdown logdir long name
	flag lora merge enable-lora lora-modules no-python nnodes nproc-per-node rdzv-backend rdzv-endpoint
	hostfile ntasks-per-node gpus-per-node kill-on-bad-exit shm-size port policy worker-urls
	request-timeout-secs user`)

// hints are flags of chat, export, train and serve that other commands name.
var hints = strings.Fields("tuned only raw prompt quantize vocab listen sequences unix adapter")

// TestDocs_FlagsExist checks what is said about the commands with the flags that they have.
func TestDocs_FlagsExist(t *testing.T) {
	bin := t.TempDir()
	all := build(t, bin)
	t.Run("texts", func(t *testing.T) { testTexts(t, all) })
	t.Run("gpu.sh", func(t *testing.T) { testGPUScript(t, all, bin) })
	t.Run("deploy", func(t *testing.T) { testDeploy(t, all) })
}

// testTexts checks that the commands have every measurement and flag that documents, scripts and messages name.
func testTexts(t *testing.T, all commands) {
	lines := 0
	texts := texts(t)
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		for _, m := range line.FindAllStringSubmatch(texts[path], -1) {
			lines += all.check(t, path, m[1], quoted.ReplaceAllString(m[2], `""`))
		}
		for _, m := range program.FindAllStringSubmatch(texts[path], -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: go run %s: there is no such directory", path, m[1])
			}
		}
		if ext := filepath.Ext(path); ext != ".md" && ext != ".go" && !strings.HasPrefix(path, "compose") {
			continue // which call other programs
		}
		known := all.of("") // those of any command
		if m := source.FindStringSubmatch(path); m != nil {
			known = append(all.of(m[1]), hints...)
		}
		for _, m := range flags.FindAllStringSubmatch(texts[path], -1) {
			if !slices.Contains(known, m[1]) && !slices.Contains(others, m[1]) {
				t.Errorf("%s: there is no --%s", path, m[1])
			}
		}
	}
	if lines < 150 {
		t.Errorf("only %d command lines found", lines)
	}
}

// check checks a command line and returns 1 if it names a measurement or a flag.
func (all commands) check(t *testing.T, path, command, rest string) int {
	named := flags.FindAllStringSubmatch(rest, -1)
	name := command
	if m := word.FindStringSubmatch(rest); m != nil && command == "bench" {
		name += " " + m[1]
	}
	if all[name] == nil && (len(named) > 0 || help.MatchString(rest)) {
		t.Errorf("%s: there is no %s: %s%s", path, name, command, rest)
		return 1
	}
	for _, m := range named {
		if !slices.Contains(all[name], m[1]) {
			t.Errorf("%s: %s has no --%s: %s%s", path, name, m[1], command, rest)
		}
	}
	return min(len(named), 1)
}

// fake stands for each program that kernels/gpu.sh runs. It notes how it was called, makes the files that the script
// reads, and prints a line of each kind that the script looks for.
const fake = `#!/bin/bash
all="$*"
{ printf '%s' "${0##*/}"; printf ' "%s"' "$@" | sed -E 's/"([^ "]*)"/\1/g'; echo; } >>"$OUT/calls"
while [ $# -gt 0 ]; do
  case $1 in
    --log) touch "$2" ;;
    --out)
      mkdir -p "$2/checkpoints/step-2"
      echo "0123456789abcdef  model.safetensors" >"$2/checkpoints/step-2/SHA256SUMS"
      [[ $2 = */killed && $all != *--resume* ]] || touch "$2/model.safetensors" ;;
  esac
  shift
done
mkdir -p "$RESTYLE_CACHE" && echo '"1x1x1": ""' >"$RESTYLE_CACHE/products-fake.json"
echo '| step | fused | all | 1 | 1 | 1 | 1% | 1 MiB | 1 MiB, +0.1% | | 1.0 |
--- PASS: TestFake
    --- PASS: TestFake/case
8x2048, a bare product, comparisons: 1, right, "first_step_seconds":0.1, "val_loss":1.0'
case $all in */ranks-KILL|*/ranks-STOP) echo "step 50/9 rank 1 ended"; exit 33 ;; esac
`

// testGPUScript runs every part of kernels/gpu.sh with programs that only note how they are called, and checks what
// the script passes to the commands. With RESTYLE_LONG the script also runs the real ones, on the emulated GPU.
func testGPUScript(t *testing.T, all commands, bin string) {
	fakes := t.TempDir()
	for _, name := range strings.Fields("bench train kernels.test opcheck.test trainer.test python3 compute-sanitizer " +
		"nvidia-smi") {
		expect.OK(t, os.WriteFile(filepath.Join(fakes, name), []byte(fake), 0o755))
	}
	script := func(device, bin, path string) string {
		cmd := exec.Command("kernels/gpu.sh")
		cmd.Dir = root
		out := t.TempDir()
		cmd.Env = append(os.Environ(), "DEVICE="+device, "BIN="+bin, "OUT="+out, "PYTHON=python3", "PATH="+path,
			"RESTYLE_CACHE="+filepath.Join(out, "compiled"), "RESTYLE_REFERENCE=", "SHAKESPEARE=data/scratch/oz.txt")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", device, err, text)
		}
		calls, _ := os.ReadFile(filepath.Join(out, "calls"))
		return string(calls)
	}
	for device, least := range map[string]int{"cuda:1": 40, "emulated": 25} {
		calls := 0
		for call := range strings.Lines(script(device, fakes, fakes+":"+os.Getenv("PATH"))) {
			if name, rest, _ := strings.Cut(strings.TrimSpace(call), " "); name == "bench" || name == "train" {
				calls += all.check(t, "kernels/gpu.sh", name, " "+quoted.ReplaceAllString(rest, `""`))
			}
		}
		if calls < least {
			t.Errorf("on %s the script calls the commands only %d times", device, calls)
		}
	}
	testWithoutData(t, fakes)
	if os.Getenv("RESTYLE_LONG") == "" {
		return
	}
	for _, path := range []string{"opcheck", "kernels", "trainer"} {
		goTool(t, "test", "-c", "-o", filepath.Join(bin, filepath.Base(path)+".test"), "./"+path)
	}
	script("emulated", bin, os.Getenv("PATH"))
}

// testWithoutData runs the part ranks where only programs are: it says what is missing before it times anything.
func testWithoutData(t *testing.T, fakes string) {
	text, err := os.ReadFile(filepath.Join(root, "kernels/gpu.sh"))
	expect.OK(t, err)
	dir, out := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "kernels", "gpu.sh")
	expect.OK(t, errors.Join(os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)))
	cmd := exec.Command(path, "ranks")
	cmd.Env = append(os.Environ(), "BIN="+fakes, "OUT="+out, "PYTHON=python3", "PATH="+fakes+":"+os.Getenv("PATH"))
	said, err := cmd.CombinedOutput()
	calls, _ := os.ReadFile(filepath.Join(out, "calls"))
	if err == nil || !strings.Contains(string(said), "FAILED: ranks needs data/passive_aggressive_data.json") ||
		strings.Contains(string(calls), "bench step") {
		t.Errorf("without data: %v\n%s%s", err, said, calls)
	}
}
