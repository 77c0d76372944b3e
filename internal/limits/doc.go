// Package limits ends a command with one clear line if ulimit leaves too little memory, threads or open files for Go's
// runtime to start. A command only has to import it. Without cgo, and on systems other than Linux, it does nothing.
package limits
