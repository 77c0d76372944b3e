package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Program returns the path of another of these commands: next to this program or, if this directory is the source, as
// for "go run ./cmd/gen", built into the user's cache. say gets a line before the build, which may take minutes.
func Program(ctx context.Context, name string, say func(format string, args ...any)) (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "restyle", name)
	say("building %s from the source in this directory, which takes minutes the first time", name)
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "restyle/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the program %s is not beside this one, and building it here failed: %w: build it with "+
			"go build ./cmd/%s, and put it there\n%s", name, err, name, out)
	}
	return path, nil
}

// Beside starts a program that a Ctrl-C does not reach, and that on Linux is asked to end when this one has ended,
// however that happened. line gets each line that the program prints, except empty ones, in another goroutine. After
// the last one, ended receives how the program ended, and is closed.
func Beside(c *exec.Cmd, line func(text string)) (ended <-chan error, err error) {
	read, write := io.Pipe()
	c.Stdout, c.Stderr = write, write
	detach(c)
	started, end, all := make(chan error), make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // it is asked to end with the thread that starts it
		err := c.Start()
		started <- err
		if err == nil {
			err = c.Wait()
		}
		write.Close()
		<-all
		end <- err
		close(end)
	}()
	go func() {
		defer close(all)
		for lines := bufio.NewReader(read); ; {
			text, err := lines.ReadString('\n')
			if text = strings.TrimRight(text, "\r\n"); text != "" {
				line(text)
			}
			if err != nil {
				return
			}
		}
	}()
	return end, <-started
}
