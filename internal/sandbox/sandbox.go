// Package sandbox starts a program that nobody has read, such as one that a model wrote, where it can reach nothing: on
// Linux, in user, process, mount, network, IPC, name and control-group namespaces of its own.
//
// The program sees the folders that Options names, read-only, five devices, and one folder of its own to write into, in
// memory and small. There is no /proc, no network, no other process, no terminal and no environment variable. It has no
// capability, gains none from a file, and a filter refuses it the system calls that reach other processes, open
// sockets, mount, or keep memory where no limit counts it. It is process 1 of its namespace: when it ends or is killed,
// all that it started is killed too, and it is killed when this process ends.
//
// What the sandbox does not limit is time, the processor, and memory and output of the program: setrlimit does, or
// whoever waits for it.
package sandbox

import "errors"

// ErrUnavailable is in the errors that say that a sandbox cannot be had here, and why.
var ErrUnavailable = errors.New("there is no sandbox here")

// Dir is where the program starts: an empty folder that only it can see, for a mebibyte in at most 64 files.
const Dir = "/folder"

// Options say what is run and what it sees.
type Options struct {
	Program string   // a path without symbolic links
	Args    []string // behind the program's name
	Visible []string // files and folders, by absolute path; those that do not exist are left out
}

// Proc is the file descriptor under which the program finds a folder with its namespace's /proc, if the kernel gives
// one. It has to close it before it runs what is not to see it.
const Proc = 9
