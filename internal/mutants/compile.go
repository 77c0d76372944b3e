package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// objectsVar names a directory of compiled C. If it is set, mutants is a C compiler.
const objectsVar = "RESTYLE_MUTANTS_OBJECTS"

// compile runs the C compiler, and keeps what it compiled, by the preprocessed source and the flags. The go command
// compiles all C files of a package again if one has changed, which takes minutes for kernels/cpu: each file is
// compiled for every instruction set. ccache would find nothing: the go command's flags name new directories each time.
func compile(objects string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	gcc := func(args ...string) error {
		cmd := exec.Command("gcc", args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		return cmd.Run()
	}
	out := slices.Index(args, "-o") + 1
	if !slices.Contains(args, "-c") || out == 0 || out == len(args) || !strings.HasSuffix(args[len(args)-1], ".c") {
		return exitCode(gcc(args...))
	}
	var source bytes.Buffer
	preprocess := exec.Command("gcc", append(slices.Concat(args[:out-1], args[out+1:]), "-E", "-P")...)
	preprocess.Stdout, preprocess.Stderr = &source, stderr
	if err := preprocess.Run(); err != nil {
		return exitCode(err)
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-O") || strings.HasPrefix(arg, "-f") && !strings.Contains(arg, "=") ||
			strings.HasPrefix(arg, "-m") || strings.HasPrefix(arg, "-std") {
			fmt.Fprintln(&source, arg)
		}
	}
	kept := filepath.Join(objects, fmt.Sprintf("%x.o", sha256.Sum256(source.Bytes())))
	if object, err := os.ReadFile(kept); err == nil {
		return exitCode(os.WriteFile(args[out], object, 0o600))
	}
	if err := gcc(args...); err != nil {
		return exitCode(err)
	}
	_ = os.Link(args[out], kept) // whole or not at all; without it, the file is compiled again
	return 0
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
