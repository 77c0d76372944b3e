// Package sandbox runs an untrusted program, such as one that a model wrote, isolated from the machine: on Linux, in
// its own user, process, mount, network, IPC, UTS and control-group namespaces.
//
// The program sees the directories that Options names, read-only, five devices, and one small in-memory directory of
// its own that it can write to. There is no /proc, no network, no other process, no terminal and no environment
// variable. The program has no capabilities and gains none from a file. A filter allows only the system calls that stay
// within the program and keep no memory that Memory does not count. The program is process 1 of its namespace: when it
// ends or is killed, the kernel kills all processes that it started. The kernel kills the program when this process
// ends.
//
// The sandbox does not limit the program's time, CPU and output. For that, use setrlimit, or the process that waits for
// the program. For its memory, use Groups if the machine has control groups, or Memory.
package sandbox

import "errors"

// ErrUnavailable is wrapped by the errors that say why this machine cannot provide a sandbox.
var ErrUnavailable = errors.New("there is no sandbox here")

// Dir is the working directory of the program: empty, visible only to it, and limited to one mebibyte in at most 64
// files.
const Dir = "/folder"

// Options are the program to run and the files that it sees.
type Options struct {
	Program string   // a path without symbolic links
	Args    []string // after the program's name
	Visible []string // files and directories, by absolute path; those that do not exist are omitted
	// Fresh is for a program that runs several pieces of code, each in process and mount namespaces of its own, with its
	// own Dir. Such a program keeps the capabilities that making them takes, and no filter limits it. It gets one more
	// argument, JSON that says which system calls it has to make: see the type fresh.
	Fresh bool
}
