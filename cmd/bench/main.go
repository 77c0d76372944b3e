// Command bench measures what this module does: against recorded results, against the machine, against other programs.
// Its first word says which. See -h.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/disk"
)

const about = `
bench measures. Each measurement has flags of its own: bench parity -h

  bench parity PATH...    how far every figure is from recorded reference outputs
  bench ops               what a device can compute, operation by operation, and how far its results are off
  bench kernels           compiles a model's kernels ahead, for GPUs that need not be there
  bench step              how fast a model trains here: tokens a second of whole steps
  bench decode            how fast it answers here, token after token, and what share of the memory's bandwidth that takes
  bench quality           what a base model and a tuned one answer to held-out questions: code that runs, tone, forgetting`

// commands are the measurements by name.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"parity":  runParity,
	"kernels": runKernels,
	"ops":     runOps,
	"step":    runStep,
	"decode":  runDecode,
	"quality": runQuality,
}

func main() {
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(stderr)
	if _, ok := cli.LoadEnv("bench", stderr); !ok {
		return cli.Usage
	}
	if len(args) == 0 {
		fmt.Fprintln(stderr, "bench: say what to measure, as in bench parity PATH; see bench -h")
		return cli.Usage
	}
	if command, ok := commands[args[0]]; ok {
		return command(ctx, args[1:], stdout, stderr)
	}
	if strings.HasPrefix(args[0], "-") { // -h, or a flag that is none
		code, _ := cli.New("bench", about, stderr).Parse(args[:1])
		return code
	}
	fmt.Fprintf(stderr, "bench: there is no measurement %q; see bench -h\n", args[0])
	return cli.Usage
}

// writeFile writes a file of results. One of that name with other contents is kept as name.bak; what is no file, such as
// /dev/stdout, is written to.
func writeFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	path, err := disk.Follow(path)
	if err != nil {
		return err
	}
	f, err := disk.Create(path, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Discard())
	}
	_, err = f.CommitBackup(path)
	return err
}

// split takes apart flags, with their values, and what else is among them, so that paths may come before flags and after.
func split(set *flag.FlagSet, args []string) (flags, paths []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return flags, append(paths, args[i+1:]...)
		case len(arg) < 2 || arg[0] != '-':
			paths = append(paths, arg)
			continue
		}
		flags = append(flags, arg)
		if takesNext(set, arg) && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	return flags, paths
}

// takesNext tells whether a flag's value is the argument behind it.
func takesNext(set *flag.FlagSet, arg string) bool {
	name := arg[1:]
	if name[0] == '-' {
		name = name[1:]
	}
	f := set.Lookup(name)
	if f == nil {
		return false // its value is behind an =, or it does not exist, which will be said
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
