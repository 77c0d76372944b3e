package cli

import (
	"os"
	"path/filepath"
	"regexp"
)

// Command returns how to call a command of this module, in the way that this one was called: next to this one if that
// was by a path, and with go run if that was how.
func Command(name string) string { return commandLike(os.Args[0], name, isDir) }

// goRun matches the paths of programs that go run has built: in a directory of this build, or in Go's cache.
var goRun = regexp.MustCompile(`[/\\]go-build\d+[/\\]|[/\\][0-9a-f]{64}-d[/\\][^/\\]*$`)

func commandLike(self, name string, isDir func(string) bool) string {
	source := filepath.Join("cmd", name)
	switch dir := filepath.Dir(self); {
	case goRun.MatchString(self) && isDir(source):
		return "go run ./" + source
	case goRun.MatchString(self):
		return "go run restyle/" + source
	case filepath.Base(self) == self:
		return name
	case dir == ".":
		return "./" + name
	default:
		return ShellQuote(filepath.Join(dir, name))
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
