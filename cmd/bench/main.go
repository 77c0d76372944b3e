// Command bench measures this module: it compares its results with recordings of other programs, and its speed with
// other programs and with the machine's limits. The first argument names the measurement. See -h.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"restyle/internal/cli"
	"restyle/internal/disk"
	_ "restyle/internal/limits" // checks them before main
)

const about = `
bench measures. Each measurement has flags of its own: bench parity -h

  bench parity PATH...    compare results with recorded reference outputs
  bench ops               check every operation on a device: what it can compute, and the errors of its results
  bench all               kernels, layer, infer and train, into one directory with tables and pictures
  bench kernels           time every operation, standard and fused: speed, memory, energy, errors; with pictures
  bench layer             time one layer of a model, its parts, and each fused operation with and without
  bench infer             time answers: with and without the KV cache, prefill, memory; with pictures
  bench decode            time a model's prompt and answer, also in turns with llama.cpp
  bench serve             time many answers at once, also in turns with llama.cpp
  bench train             train the same steps in several modes, also PyTorch's, in turns: speed, and where losses part
  bench step              time training steps: tokens per second
  bench many              simulate training on many GPUs, on paper
  bench page DIR          write the pages and pictures of a directory with results.json again
  bench compare A B       compare two files of results: what became faster, and what slower
  bench precompile        compile a model's kernels in advance, also for GPUs that this machine lacks
  bench quality           grade the answers of a base and a tuned model to held-out questions: code, tone, forgetting`

// commands are the measurements by name.
var commands map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int

func init() { // all calls the others
	commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
		"all":        runAll,
		"parity":     runParity,
		"kernels":    runKernels,
		"precompile": runPrecompile,
		"ops":        runOps,
		"step":       runStep,
		"many":       runMany,
		"infer":      runInfer,
		"decode":     runDecode,
		"serve":      runServe,
		"train":      runTrain,
		"layer":      runLayer,
		"page":       runPage,
		"compare":    runCompare,
		"quality":    runQuality,
	}
}

func main() {
	os.Exit(run(cli.StopContext(cli.StopSignals...), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = cli.CleanWriter(stdout), cli.CleanWriter(stderr)
	if _, ok := cli.LoadEnv("bench", stderr); !ok {
		return cli.Usage
	}
	if len(args) == 0 {
		fmt.Fprintln(stderr, "bench: no measurement: name one, such as bench parity PATH; see bench -h")
		return cli.Usage
	}
	if command, ok := commands[args[0]]; ok {
		return command(ctx, args[1:], stdout, stderr)
	}
	if args[0] == "help" {
		args[0] = "-h"
	}
	if strings.HasPrefix(args[0], "-") { // -h, --version, or an unknown flag
		i := slices.IndexFunc(args, func(arg string) bool { return commands[arg] != nil })
		switch name := strings.Trim(args[0], "-"); {
		case i > 0 && (name == "h" || name == "help"):
			return commands[args[i]](ctx, []string{"-h"}, stdout, stderr)
		case i > 0 && name != "version":
			fmt.Fprintf(stderr, "bench: %s comes before the measurement: flags follow it: bench %s %[1]s\n", args[0], args[i])
			return cli.Usage
		}
		version := false
		f := cli.New("bench", about, stdout, stderr)
		f.Group("Other")
		f.Add(&version, "version", "print the version")
		code, done := f.Parse(args[:1])
		if !done {
			fmt.Fprintln(stdout, "bench", cli.Version())
		}
		return code
	}
	meant := cli.Nearest(args[0], slices.Sorted(maps.Keys(commands)))
	if meant != "" {
		meant = ": did you mean " + meant + "?"
	}
	fmt.Fprintf(stderr, "bench: unknown measurement %q%s\nsee bench -h\n", args[0], meant)
	return cli.Usage
}

// writeJSON writes the file of --json.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = writeFile(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

// writeFile writes results to a file. It backs up an existing file with other contents as name.bak. If path is not a
// regular file, such as /dev/stdout, writeFile writes to it.
func writeFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := disk.OpenDevice(path)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
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
