package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program returns the path of another of these commands: beside this program or, if this directory is the source, as
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
