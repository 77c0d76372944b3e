package memory

import (
	"os"
)

func free() (bytes int, whose string, ok bool) { return freeIn(os.DirFS("/")) }

func resident() int {
	kib, _ := field(os.DirFS("/"), "proc/self/status", "RssAnon:")
	return kib << 10
}
