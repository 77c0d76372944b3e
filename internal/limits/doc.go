// Package limits ends a command with one line if the process may not have the memory, threads or open files that Go's
// runtime needs to start (ulimit). A command only has to import it. Without cgo, and on other systems than Linux, it
// does nothing.
package limits
