// Command mutants does mutation testing: it plants faults in the code, one at a time, and counts how many the tests
// find. It is run by hand, since each fault takes a build and a test run:
//
//	go run ./internal/mutants                      # all of them
//	go run ./internal/mutants -run '^trainer/'     # those whose names match
//	go run ./internal/mutants -j 16                # 16 at a time
//	go run ./internal/mutants -list                # names only
//	go run ./internal/mutants -table FILE          # the faults of a file of your own
//	go run ./internal/mutants -random 50 chat hf   # 50 of all small changes to the Go of these packages
//
// The faults are in faults/, a file for each area ([table]). A fault replaces one piece of text in one file ([mutant]).
// The file on the disk stays unchanged: the compiler gets the changed copy through Go's -overlay. A fault is found if
// any of its tests fails, and survives if all pass. If the only failure is that time ran out, the verdict is TIMEOUT:
// the fault may hang, or the tests are slow. Tests that read sources from the disk see the code without the fault.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one fault.
type mutant struct {
	name  string // area/what, unique
	file  string // path relative to the module's root
	old   string // text that occurs exactly once in the file
	new   string // the text that replaces it
	tests string // packages, and flags of go test such as -run, separated by spaces
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if objects := os.Getenv(objectsVar); objects != "" {
		os.Exit(compile(objects, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "plant the faults whose `name` matches this regular expression; default all")
	own := flags.String("table", "", "`file` of faults; default all of internal/mutants/faults")
	count := flags.Int("random", 0, "plant this `number` of small changes to the packages that are named, chosen by -seed")
	seed := flags.Uint64("seed", 1, "chooses the changes of -random")
	list := flags.Bool("list", false, "print names and stop")
	verbose := flags.Bool("v", false, "print the end of what the tests print")
	workers := flags.Int("j", 1, "plant this many faults at a time")
	short := flags.Bool("short", false, "run the tests with -short")
	timeout := flags.Duration("timeout", 10*time.Minute,
		"limit for the tests of one fault; past it the fault counts neither as found nor as a survivor, but as TIMEOUT")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintf(stderr, "mutants: -run %s: %v\n", *pattern, err)
		return 2
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	chosen, err := choose(root, *own, flags.Args(), *count, *seed)
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !match.MatchString(m.name) })
	if *list {
		for _, m := range chosen {
			fmt.Fprintln(stdout, m.name)
		}
		return 0
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	objects, err := os.MkdirTemp("", "mutants-objects-")
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	defer os.RemoveAll(objects)
	compiler := []string{"CC=" + self, objectsVar + "=" + objects}
	p := planter{root: root, short: *short, timeout: *timeout, compiler: compiler}
	counts := p.plantAll(ctx, chosen, *workers, func(m mutant, v verdict, took time.Duration, out string) {
		fmt.Fprintf(stdout, "%-9s %5.1f s  %s\n", v, took.Seconds(), m.name)
		if *verbose || v == broken {
			fmt.Fprintln(stdout, tail(out, 2000))
		}
	})
	if ctx.Err() != nil {
		return 1
	}
	missed := counts[survived] + counts[timedOut]
	fmt.Fprintf(stdout, "%d of %d found, %d survived, %d ran out of time, %d could not be planted\n",
		counts[found], counts[found]+missed, counts[survived], counts[timedOut], counts[broken])
	if missed+counts[broken] > 0 {
		return 1
	}
	return 0
}

// choose returns the faults of a file, of packages, or of the whole table.
func choose(root, own string, packages []string, count int, seed uint64) ([]mutant, error) {
	if (count > 0) != (len(packages) > 0) {
		return nil, fmt.Errorf("-random takes the packages to change, and nothing else takes any")
	}
	if count > 0 {
		return random(root, packages, count, seed)
	}
	if own != "" {
		return table(own)
	}
	files, err := tables(root)
	if err != nil {
		return nil, err
	}
	return table(files...)
}

// verdict is the result for a fault.
type verdict string

const (
	found    verdict = "found"
	survived verdict = "SURVIVED"
	timedOut verdict = "TIMEOUT" // no test failed, but some did not end in time
	broken   verdict = "BROKEN"  // the text is not there once, does not compile, or no test ran
)

// planter is how faults are planted.
type planter struct {
	root     string // of the module
	short    bool   // run the tests with -short
	timeout  time.Duration
	compiler []string // environment variables that make this program the compiler of faults in C, see [compile]
}

// plantAll plants several faults, some at a time, and counts the verdicts. It calls report after each, one at a time.
func (p planter) plantAll(ctx context.Context, faults []mutant, workers int,
	report func(m mutant, v verdict, took time.Duration, out string)) map[verdict]int {
	counts := map[verdict]int{}
	var reporting sync.Mutex
	var planting sync.WaitGroup
	next := make(chan mutant)
	for range max(workers, 1) {
		planting.Go(func() {
			for m := range next {
				start := time.Now()
				v, out := p.plant(ctx, m)
				if ctx.Err() != nil {
					continue
				}
				reporting.Lock()
				counts[v]++
				report(m, v, time.Since(start), out)
				reporting.Unlock()
			}
		})
	}
	for _, m := range faults {
		next <- m
	}
	close(next)
	planting.Wait()
	return counts
}

// plant runs the tests of one fault. out is their output.
func (p planter) plant(ctx context.Context, m mutant) (v verdict, out string) {
	changed, err := m.apply(p.root)
	if err != nil {
		return broken, err.Error()
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return broken, err.Error()
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(m.file))
	overlay := filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(p.root, m.file): file}})
	if err != nil {
		return broken, err.Error()
	}
	for name, data := range map[string][]byte{file: changed, overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return broken, err.Error()
		}
	}
	// The flag is in the environment, so that a test that builds a command also builds it with the fault.
	environ := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if ext := filepath.Ext(m.file); ext == ".c" || ext == ".h" {
		environ = append(environ, p.compiler...)
	}
	goTest := func(extra ...string) ([]byte, error) {
		args := append([]string{"test", "-vet=off", "-failfast", "-timeout", p.timeout.String()}, extra...)
		cmd := exec.CommandContext(ctx, "go", append(args, strings.Fields(m.tests)...)...)
		cmd.Dir, cmd.Env = p.root, environ
		return cmd.CombinedOutput()
	}
	var flags []string
	if p.short {
		flags = []string{"-short"}
	}
	b, err := goTest(flags...)
	return verdictOf(string(b), err), string(b)
}

var outOfTime = regexp.MustCompile(`(?m)^(panic: test timed out after|\*\*\* Test killed.*: ran too long) `)

// verdictOf reads what go test printed and returned. go test names as failed only tests that ended, and every package
// whose tests failed, crashed or ran out of time.
func verdictOf(out string, err error) verdict {
	switch late := len(outOfTime.FindAllString(out, -1)); {
	case err == nil && ranTests(out):
		return survived
	case err == nil || strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return broken
	case late > 0 && late >= strings.Count(out, "\nFAIL\t") && !strings.Contains(out, "--- FAIL: "):
		return timedOut
	}
	return found
}

// ranTests reports whether go test, which passed, ran a test in any package: a -run that matches none passes as well.
func ranTests(out string) bool {
	return strings.Count(out, "ok  \t") > strings.Count(out, "[no tests to run]")
}

// apply returns the file's text with the fault.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("%s: its text occurs %d times in %s, not once: %q", m.name, n, m.file, m.old)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// stale says why the fault cannot be planted or its tests not run.
func (m mutant) stale(root string) error {
	for _, word := range strings.Fields(m.tests) {
		if dir, ok := strings.CutPrefix(word, "./"); ok {
			if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(dir, "..."))); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	_, err := m.apply(root)
	return err
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", fmt.Errorf("the working directory is not in the module: run it from the repository")
	}
	return filepath.Dir(file), nil
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}
