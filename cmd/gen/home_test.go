package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"restyle/dataset"
	"restyle/internal/cli"
	"restyle/internal/expect"
)

// asServe is set in the environment of a process of this program that has to be the server of --teacher-model. Its
// value is the call from which on the server is gone, 0 for never.
const asServe = "RESTYLE_TEST_AS_SERVE"

// serveAtHome is command serve with the answers of a server of these tests. It writes what it is given to files next
// to its model, whose name is a path here.
func serveAtHome(args []string) int {
	model, socket := args[0], args[slices.Index(args, "--unix")+1]
	note := func(name, text string) { _ = os.WriteFile(model+"."+name, []byte(text), 0o600) }
	note("args", strings.Join(slices.Delete(slices.Clone(args), 0, 3), " "))
	note("pid", strconv.Itoa(os.Getpid()))
	if os.Getenv("OPENAI_API_KEY") != "" {
		note("leak", "OPENAI_API_KEY")
	}
	fmt.Fprintln(os.Stderr, "loading", filepath.Base(model))
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("request", "id", 1)
	if strings.HasSuffix(model, "absent") {
		fmt.Fprintln(os.Stderr, "there is no such model")
		return 1
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	last, _ := strconv.Atoi(os.Getenv(asServe))
	s := &server{models: []string{"home"}, asked: map[string]int{}, fault: func(c call) bool {
		if calls, _ := c.s.counts(); last > 0 && calls >= last {
			os.Exit(7)
		}
		return false
	}}
	var looks atomic.Int64
	key := "Bearer " + os.Getenv("RESTYLE_API_KEYS")
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ready":
			if looks.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case r.Header.Get("Authorization") != key || len(key) < 30:
			refuse(w, r, 401, "no key")
		case strings.HasSuffix(r.URL.Path, "/models"):
			_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]string{"id": "home", "digest": "sha256:12"}}})
		default:
			s.ServeHTTP(w, r)
		}
	}))
	return 0
}

// TestHome_Runs runs gen with a server of its own: to the end, with one that ends in the middle, and then again.
func TestHome_Runs(t *testing.T) {
	t.Parallel()
	f, source := newFolder(t), tasks(t, 60)
	program := func(gone int) string {
		path := filepath.Join(t.TempDir(), "serve")
		text := fmt.Sprintf("#!/bin/sh\nexec env %s=%d %s \"$@\"\n", asServe, gone, os.Args[0])
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := func(out, model string, gone int, more ...string) []string {
		return slices.Concat([]string{"--source", source, "--rows", "30", "--out", out, "--teacher-model",
			filepath.Join(f.dir, model), "--serve-program", program(gone)}, more)
	}
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(f.dir, name))
		return string(b)
	}
	if o := must(t, cli.Done, args(f.out, "dry", 0, "--dry-run")...); read("dry.pid") != "" ||
		!strings.Contains(o.stderr, "dry, temperature") {
		t.Errorf("--dry-run started the server, or does not name the model: %v", o)
	}
	o := must(t, cli.Done, args(f.out, "m", 0, "--quantize", "int4", "--device", "cpu")...)
	contains(t, o.stderr, "serve: loading m")
	if strings.Contains(o.stderr, "msg=request") {
		t.Errorf("the log has the server's requests:\n%s", o.stderr)
	}
	if got := read("m.args"); got != "--quantize int4 --device cpu" {
		t.Errorf("serve got %q", got)
	}
	if read("m.leak") != "" {
		t.Errorf("serve got %s", read("m.leak"))
	}
	gone(t, read("m.pid"))

	broken := filepath.Join(f.dir, "broken", "rows.json")
	o = must(t, cli.Failed, args(broken, "m", 20)...)
	contains(t, o.stderr, "exit status 7", "its last lines say why", "the same command resumes")
	must(t, cli.Done, args(broken, "m", 0)...)
	for _, name := range []func(string) string{func(s string) string { return s }, dataset.CertificatePath} {
		a, err := os.ReadFile(name(f.out))
		b, again := os.ReadFile(name(broken))
		if err != nil || again != nil || string(a) != string(b) {
			t.Errorf("%s: after a server that ended, the bytes are others: %v, %v", filepath.Base(name(broken)), err, again)
		}
	}
	if runtime.GOOS == "linux" {
		cmd, _, _ := process(t, args(filepath.Join(f.dir, "killed", "rows.json"), "k", 0)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for read("k.pid") == "" {
			time.Sleep(5 * time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		gone(t, read("k.pid"))
	}
	o = must(t, cli.Failed, args(filepath.Join(f.dir, "none", "rows.json"), "absent", 0)...)
	contains(t, o.stderr, "serve: there is no such model", "ended before it was ready (exit status 1)")
	for _, c := range []struct{ want, args string }{
		{"leave out", "--teacher-model m --base-url http://127.0.0.1:1/v1"},
		{"leave out", "--teacher-model m --model other"},
		{"leave out", "--teacher-model m --teacher builtin"},
		{"set that as well", "--quantize int4"},
		{"--serve-program", "--teacher-model m --serve-program /nowhere/serve"},
	} {
		contains(t, must(t, cli.Usage, strings.Fields(c.args)...).stderr, c.want)
	}
}

// TestHomeDir_RemovesWhatKillsLeave checks that a run removes the directories of killed runs, but not of running ones,
// nor what a link leads to.
func TestHomeDir_RemovesWhatKillsLeave(t *testing.T) {
	temp, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	named := func(name string) string { return filepath.Join(temp, homePrefix+name) }
	killed, full, link, work := named("1"), named("2"), named("3"), named("rows.json.work") // work is a journal's
	for _, dir := range []string{killed, full, work} {
		expect.OK(t, os.Mkdir(dir, 0o700))
	}
	kept := []string{filepath.Join(full, "mine"), filepath.Join(work, "lock"), filepath.Join(elsewhere, homeLock)}
	for _, file := range append(kept, filepath.Join(killed, homeLock), filepath.Join(killed, homeSocket),
		filepath.Join(full, homeLock)) {
		expect.OK(t, os.WriteFile(file, []byte("mine"), 0o600))
	}
	expect.OK(t, os.Symlink(elsewhere, link))
	left := []string{full, link, work}
	for range 2 {
		dir, leave, err := homeDir()
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		left = append(left, dir)
	}
	all, _ := filepath.Glob(filepath.Join(temp, "*"))
	slices.Sort(left)
	if !slices.Equal(all, left) {
		t.Errorf("left are %q, want %q", all, left)
	}
	for _, file := range kept {
		if mine, _ := os.ReadFile(file); string(mine) != "mine" {
			t.Errorf("%s is gone", file)
		}
	}
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal("the server has not told its process")
	}
	for syscall.Kill(n, 0) == nil {
		stat, _ := os.ReadFile("/proc/" + pid + "/stat")
		if strings.Contains(string(stat), ") Z ") {
			return // whoever took it over need not have waited for it
		}
		time.Sleep(5 * time.Millisecond)
	}
}
