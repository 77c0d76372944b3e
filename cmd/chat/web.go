package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"restyle/hf"
	"restyle/internal/cli"
)

// browser opens a page. Tests replace it.
var browser = func(url string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	return exec.Command(program, url).Run()
}

// openPage runs serve with the models, and opens its page once it listens. It returns when serve ends, or when ctx is
// done.
func (c *chatter) openPage(ctx context.Context, models []modelRef) error {
	program, err := cli.Program(ctx, "serve", c.note)
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	server := exec.Command(program, c.serveArgs(models)...)
	lines := make(chan string)
	ended, err := cli.Beside(server, func(line string) { lines <- line })
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Process.Signal(syscall.SIGTERM) })
	defer stop()
	opened := make(chan error, 1)
	show := func(err error) {
		if err != nil {
			c.note("no browser could be opened (%v): open that address yourself", err)
		}
	}
	for {
		select {
		case err := <-opened:
			show(err)
		case line := <-lines:
			url, listens := strings.CutPrefix(line, "listening on ")
			if !listens {
				c.note("%s", line)
				continue
			}
			c.note("chat is at %s until Ctrl-C", url)
			go func() { opened <- browser(url) }() // which may take until its window is closed: serve's log continues
		case err := <-ended:
			select {
			case err := <-opened:
				show(err)
			default:
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
				return fmt.Errorf("--web: serve ended: %w: its last lines say why", exit)
			}
			return ctx.Err()
		}
	}
}

// serveArgs returns the arguments with which serve has the models of chat. A tuned model that is an adapter shares the
// base's weights.
func (c *chatter) serveArgs(models []modelRef) (args []string) {
	if alone := models[0]; alone.base != "" && hf.IsAdapter(alone.name) { // which serve finds no other way
		models = append([]modelRef{{label: baseLabel, name: alone.base}}, alone)
	}
	for i, m := range models {
		if i > 0 && hf.IsAdapter(m.name) {
			args = append(args, "--adapter")
		}
		args = append(args, m.label+"="+m.name)
	}
	args = append(args, "--listen", "127.0.0.1:0", "--device", c.device, "--dtype", c.dtype, "--context",
		strconv.Itoa(c.context), "--sequences", "4", "--threads", strconv.Itoa(c.threads))
	for flag, value := range map[string]string{"--template": c.template, "--quantize": c.quantize} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if c.offline {
		args = append(args, "--offline")
	}
	return args
}
