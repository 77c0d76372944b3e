package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"restyle/dataset/training"
	"restyle/internal/cli"
	"restyle/internal/expect"
	"restyle/kernels"
	"restyle/kernels/cuda"
	"restyle/trainer"
	"restyle/trainer/checkpoint"
	"restyle/trainer/report"
)

// rankVariable makes the test binary run the command as a user does, also as the ranks that it starts.
const rankVariable = "RESTYLE_TEST_RANK"

// process runs the command in a process of its own.
func process(t testing.TB, code int, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.Command(os.Args[0], args...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), rankVariable+"=1"), &stdout, &stderr
	_ = c.Run()
	o := outcome{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if o.code != code {
		t.Fatalf("train %s: want exit %d: %v", strings.Join(args, " "), code, o)
	}
	return o
}

// losses returns the loss of every step of a run, and of every validation.
func losses(t testing.TB, out string) (list []float64) {
	t.Helper()
	lines, err := report.ReadMetrics[metricsLine](filepath.Join(out, "metrics.jsonl"))
	expect.OK(t, err)
	for _, l := range lines {
		for _, x := range []*report.Number{l.Loss, l.ValLoss} {
			if x != nil {
				list = append(list, float64(*x))
			}
		}
	}
	return list
}

// TestRanks_LearnTheSame trains on one rank and on several: the losses agree, and a repeat has the same bits. Six steps
// over 12 examples by 5 have two of 5 and one of 2, in which a third rank has none.
func TestRanks_LearnTheSame(t *testing.T) {
	data, uneven := rows(t, 12), unevenRows(t)
	for _, c := range []struct {
		name      string
		size      int
		flags     string
		tolerance float64 // relative; of sums in another order, whose errors AdamW enlarges where gradients are almost 0
	}{
		{"fp32", 2, "--dtype fp32 --optimizer adamw", 2e-4},
		{"fp32", 3, "--dtype fp32 --optimizer adamw", 2e-4},
		{"gradients", 3, "--dtype fp32 --optimizer adamw --shard gradients", 2e-4},
		{"same bits", 3, "--same-bits --batch 2", 0},
		{"same bits", 2, "--same-bits --shard gradients --master sr", 0},
		{"same bits", 3, "--same-bits --shard weights --recompute layer --master fp32", 0},
		{"same bits of little", 3, "--same-bits --train-only mlp,norm", 0}, // ranks own nothing of some layers
		// Of eleven passes the third rank has three: in the fourth it has nothing, but parts of the weights.
		{"weights", 3, "--dtype fp32 --optimizer adamw --shard weights --accumulate 11", 2e-4},
		// One rank has a pass of short examples, and the other four of long ones.
		{"uneven", 2, "--dtype fp32 --optimizer adamw --shard gradients --accumulate 8 --max-steps 3 --data " + uneven, 2e-4},
		{"bf16", 3, "", 2e-2}, // a weight near the middle between two numbers goes either way
		{"lora", 2, "--lora r=4 --dtype fp32 --accumulate 12", 2e-4}, // two passes on each rank
		{"one layer", 2, "--dtype fp32 --train-only layers.1 --accumulate 12 --shard gradients", 2e-4},
		{"fp16", 2, "--dtype fp16 --optimizer adamw", 2e-3}, // 8 times as exact as bf16
		// Layers share memory for gradients, and of eleven passes the third rank has three.
		{"mixture", 3, "--dtype fp32 --optimizer adamw --balance-loss 0 --shard gradients --accumulate 11 --seq 40 " +
			"--max-steps 3 --tokenizer " + tinyBase + " --from-scratch " + mixtureConfig(t, 5), 3e-5},
		{"packing", 2, "--packing --dtype fp32 --optimizer adamw --max-steps 3 --seq 40", 2e-4},
	} {
		t.Run(fmt.Sprint(c.name, c.size), func(t *testing.T) {
			t.Parallel()
			var states [][]byte // the optimizer's after the last step, and the model
			train := func(name string, more ...string) []float64 {
				out := filepath.Join(t.TempDir(), name)
				args := []string{"--out", out, "--benchmark-log=", "--device", "cpu", "--batch", "1",
					"--accumulate", "5", "--epochs", "0", "--max-steps", "6", "--seq", "128", "--lr", "1e-3", "--val", "0",
					"--samples", "0"}
				if c.name != "mixture" {
					args = append(args, "--model", tinyBase)
				}
				if c.name != "uneven" {
					args = append(args, "--data", data)
				}
				process(t, cli.Done, append(append(args, strings.Fields(c.flags)...), more...)...)
				saved, err := os.ReadFile(filepath.Join(checkpoint.Dir(trainer.CheckpointsIn(out), len(losses(t, out))),
					"optimizer.safetensors"))
				if err != nil {
					t.Error(err)
				}
				model, _ := os.ReadFile(filepath.Join(out, "model.safetensors")) // adapters have another file
				states = append(states, append(saved, model...))
				return losses(t, out)
			}
			like := func(what string, got, want []float64, tolerance float64) {
				if len(got) != len(want) || len(want) < 3 {
					t.Fatalf("%s: %d steps, want %d", what, len(got), len(want))
				}
				for i := range want {
					if math.Abs(got[i]-want[i]) > tolerance*want[i] {
						t.Errorf("%s: the loss of step %d is %v, want %v", what, i+1, got[i], want[i])
					}
				}
			}
			one, several := train("one"), train("several", "--ranks", fmt.Sprint(c.size))
			like("several ranks, want those of one", several, one, c.tolerance)
			if c.tolerance == 0 {
				like("ordered sums, want those of others", one, train("unordered", "--same-bits=false"), 2e-2)
			} else {
				like("a repeat", train("again", "--ranks", fmt.Sprint(c.size)), several, 0)
				states = states[1:]
			}
			if !bytes.Equal(states[0], states[1]) {
				t.Error("the optimizer's state or the model has other bits")
			}
		})
	}
}

// unevenRows returns eight rows: in the order of the first epoch, every second one fills a pass.
func unevenRows(t *testing.T) string {
	list := make([]map[string]string, 8)
	for i, row := range training.Order(len(list), 0, 0) {
		list[row] = map[string]string{"instruction": fmt.Sprint("q", row), "output": "a" + strings.Repeat(" word", i%2*200)}
	}
	data, err := json.Marshal(list)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "uneven.json")
	writeFile(t, path, string(data))
	return path
}

// rankProcesses starts the ranks of a run as a launcher does. edit changes the flags of one.
func rankProcesses(t *testing.T, size int, args []string, edit func(rank int, args []string) []string) (
	list []*exec.Cmd, said []*bytes.Buffer, first io.Reader) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	expect.OK(t, err)
	defer socket.Close()
	for r := range size {
		own := args
		if edit != nil {
			own = edit(r, args)
		}
		c, stderr := exec.Command(os.Args[0], own...), new(bytes.Buffer)
		c.Env = append(os.Environ(), rankVariable+"=1", fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", size),
			"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", l.Addr().(*net.TCPAddr).Port))
		c.Stderr = stderr
		if r == 0 {
			c.ExtraFiles, c.Env = []*os.File{socket}, append(c.Env, "RESTYLE_LISTENER=3")
			pipe, w, err := os.Pipe()
			expect.OK(t, err)
			defer w.Close()
			first, c.Stderr = io.TeeReader(pipe, stderr), w
		}
		expect.OK(t, c.Start())
		list, said = append(list, c), append(said, stderr)
	}
	return list, said, first
}

// TestRanks_LostOne kills a rank in the middle of a run: all others end with 33 and name it. The run continues on
// another number of ranks from its last checkpoint, and a signal stops all of them in order.
func TestRanks_LostOne(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	args := []string{"--model", tinyBase, "--data", rows(t, 40), "--out", out, "--benchmark-log=", "--device", "cpu",
		"--seq", "128", "--epochs", "0", "--max-steps", "100000", "--val", "0", "--samples", "0", "--save-every", "5",
		"--log-every", "1"}
	ranks, said, first := rankProcesses(t, 3, args, nil)
	lines := bufio.NewScanner(first)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "step 7") {
	}
	_ = ranks[1].Process.Kill()
	_, _ = io.Copy(io.Discard, first)
	for r, c := range ranks {
		_ = c.Wait()
		if r != 1 && (c.ProcessState.ExitCode() != cli.Retry || !strings.Contains(said[r].String(), "rank 1 ") ||
			!strings.Contains(said[r].String(), "continue from the last checkpoint")) {
			t.Errorf("rank %d: exit %d: %s", r, c.ProcessState.ExitCode(), said[r])
		}
	}
	found, err := checkpoint.Latest(trainer.CheckpointsIn(out))
	if err != nil || len(found.Skipped) > 0 {
		t.Fatal(found, err)
	}

	ranks, said, first = rankProcesses(t, 2, append(args, "--resume"), nil)
	lines = bufio.NewScanner(first)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "step ") {
	}
	for _, c := range ranks { // as a launcher does
		_ = c.Process.Signal(syscall.SIGTERM)
	}
	_, _ = io.Copy(io.Discard, first)
	for r, want := range []int{cli.Stopped, cli.Done} {
		_ = ranks[r].Wait()
		if code := ranks[r].ProcessState.ExitCode(); code != want {
			t.Errorf("rank %d: exit %d, want %d: %s", r, code, want, said[r])
		}
	}
	if !strings.Contains(said[0].String(), "continuing after step ") {
		t.Errorf("resumed: %s", said[0])
	}
}

// TestRanks_ResumeOnOthers takes four steps on two ranks and four more on three: the losses are the same as on one
// rank.
func TestRanks_ResumeOnOthers(t *testing.T) {
	data, dir := rows(t, 12), t.TempDir()
	both := func(name, before, after string, flags ...string) []float64 {
		args := []string{"--model", tinyBase, "--data", data, "--out", filepath.Join(dir, name), "--benchmark-log=",
			"--device", "cpu", "--seq", "128", "--epochs", "0", "--lr", "1e-3", "--schedule", "constant", "--warmup", "0",
			"--val", "0", "--samples", "0", "--dtype", "fp32"}
		ranks := func(text string) []string { return strings.Fields("--ranks " + strings.Replace(text, " with", "", 1)) }
		process(t, cli.Done, slices.Concat(args, flags, []string{"--max-steps", "4"}, ranks(before))...)
		args = append(append(args, "--max-steps", "8", "--resume"), ranks(after)...)
		if slices.Contains(flags, "--same-bits") { // which the run's record has
			if o := process(t, cli.Done, args...); strings.Contains(o.stderr, "same bits") {
				t.Error(o)
			}
			return losses(t, filepath.Join(dir, name))
		}
		note := "ranks: the run began on " + before + ", and this is " + after
		if before != after {
			if o := process(t, cli.Failed, append(args, "--same-bits")...); !strings.Contains(o.stderr, note) {
				t.Errorf("%v, want %q", o, note)
			}
		}
		if o := process(t, cli.Done, args...); strings.Contains(o.stderr, note) != (before != after) {
			t.Errorf("%v, with %q?", o, note)
		}
		return losses(t, filepath.Join(dir, name))
	}
	exact := both("exact", "2", "2", "--same-bits")
	for before, after := range map[string]string{"3": "1", "2 with --shard weights": "3 with --shard weights"} {
		if other := both("other"+after, before, after, "--same-bits", "--samples", "1"); !slices.Equal(exact, other) {
			t.Errorf("with --same-bits the losses are %v, and on %s and then %s ranks %v", exact, before, after, other)
		}
	}
	one, several := both("one", "1", "1"), both("several", "2", "3 with --shard weights")
	for i := range one {
		if math.Abs(several[i]-one[i]) > 1e-3*one[i] { // 8-bit moments enlarge the errors of sums further
			t.Errorf("step %d: the loss is %v on several ranks, %v on one", i+1, several[i], one[i])
		}
	}
}

// TestRanks_Refuse checks what is refused, on every rank.
func TestRanks_Refuse(t *testing.T) {
	args := small(t, filepath.Join(t.TempDir(), "out"), "--device", "cpu")
	for _, c := range []struct{ flags, want string }{
		{"--ranks 2 --device cuda:0,1,2", "--ranks 2 and device cuda:0,1,2, which is 3 GPUs"},
		{"--ranks 5", "one example for each rank"},
		{"--ranks 2 --gradients layer", "--gradients layer: must be step with several ranks or same-bits, which sum those " +
			"of a whole step: for less memory, set shard to gradients on several ranks"},
		{"--ranks -1", "--ranks -1"},
		{"--ranks 3 --same-bits --accumulate 2", "--accumulate 2: must be at least 3 with same-bits"},
		{"--ranks 2 --shard weights --train-only mlp", "--shard weights: must be optimizer or gradients with"},
		{"--same-bits --gradients layer", "--gradients layer: must be step with several ranks or same-bits"},
	} {
		o := must(t, cli.Usage, append(append(args, "--dry-run"), strings.Fields(c.flags)...)...)
		if !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: %v, want %q", c.flags, o, c.want)
		}
	}
	const note = "--shard gradients divides nothing, as there is one rank"
	for flags, want := range map[string]bool{"--shard gradients": true, "--shard gradients --ranks 2": false,
		"--seq 128": false} {
		o := must(t, cli.Done, append(append(args, "--dry-run"), strings.Fields(flags)...)...)
		if strings.Contains(o.stderr, note) != want {
			t.Errorf("%s: %v, with %q?", flags, o, note)
		}
	}
	ranks, said, first := rankProcesses(t, 2, args, func(rank int, args []string) []string {
		return append(args, "--lr", []string{"1e-3", "2e-3"}[rank])
	})
	_, _ = io.Copy(io.Discard, first)
	for r, c := range ranks {
		_ = c.Wait()
		if c.ProcessState.ExitCode() != cli.Usage || !strings.Contains(said[r].String(),
			`the ranks would not do the same: lr is "0.002" on rank 1 and "0.001" on rank 0`) {
			t.Errorf("rank %d: exit %d: %s", r, c.ProcessState.ExitCode(), said[r])
		}
	}
}

// TestRanks_ExitAsTheOneThatFailed checks the exit code if rank 0 finds that there is nothing to do, or that it cannot.
func TestRanks_ExitAsTheOneThatFailed(t *testing.T) {
	args := small(t, filepath.Join(t.TempDir(), "out"), "--device", "cpu", "--max-steps", "2", "--ranks", "2")
	process(t, cli.Done, args...)
	if o := process(t, cli.Done, append(args, "--resume")...); !strings.Contains(o.stderr, "is finished, after step 2") {
		t.Error(o)
	}
	o := process(t, cli.Failed, append(args, "--out", t.TempDir(), "--resume")...)
	if !strings.Contains(o.stderr, "there is no run in") || strings.Contains(o.stderr, "rank 1: ") {
		t.Error(o)
	}
}

// TestRanks_MPI starts four ranks with Open MPI.
func TestRanks_MPI(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("mpirun is not installed")
	}
	out := filepath.Join(t.TempDir(), "out")
	args := append([]string{"--allow-run-as-root", "--oversubscribe", "-n", "4", "-x", rankVariable + "=1", os.Args[0]},
		small(t, out, "--device", "cpu", "--epochs", "1")...)
	for { // until no other process takes the port meanwhile
		c := exec.Command(mpirun, args...)
		c.Env = append(os.Environ(), "RESTYLE_PORT="+freePort(t))
		said, err := c.CombinedOutput()
		if err != nil && strings.Contains(string(said), "on which the ranks are to meet, is in use") {
			continue
		}
		if err != nil || len(losses(t, out)) == 0 {
			t.Errorf("%v: %s", err, said)
		}
		return
	}
}

// freePort returns a port that no process listens on.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", ":0")
	expect.OK(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// TestRanks_Emulated trains on emulated GPUs, which sum in the order of the ranks as the CPU does, but late: what does
// not wait for a sum computes with something else.
func TestRanks_Emulated(t *testing.T) {
	if d, err := kernels.Open("emulated", kernels.Options{}); errors.Is(err, cuda.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil || d.Close() != nil {
		t.Fatal(err)
	}
	t.Setenv("STANDIN_BESIDE", "300")
	data, config := rows(t, 12), filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 320,
		"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 5, "num_attention_heads": 1,
		"num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128, "tie_word_embeddings": true}`)
	for _, c := range []struct {
		size, flags string
		tolerance   float64
	}{
		// The loss after the second step shows what the ranks summed in both.
		{"2", "--dtype fp32 --optimizer adamw --val 0.2", 1e-5},
		// Without room for wider ones, each rank has three passes.
		{"2", "--dtype fp32 --optimizer adamw --shard gradients --batch 1 --accumulate 6 --max-memory 34.05MiB " +
			"--val 0.2", 1e-5},
		{"2", "--same-bits --shard weights --val 0.2 --eval-every 1 --lr 1", 0}, // the first are the best
		{"3", "--same-bits", 0},
	} {
		t.Run(c.size+c.flags, func(t *testing.T) {
			t.Parallel()
			var both [2][]float64
			var models [2][]byte
			for i, size := range []string{"1", c.size} {
				out := filepath.Join(t.TempDir(), "out")
				args := []string{"--from-scratch", config, "--tokenizer", tinyBase, "--data", data, "--out", out,
					"--benchmark-log=", "--device", "emulated",
					"--epochs", "0", "--max-steps", "2", "--lr", "1e-2", "--seq", "64", "--val", "0", "--samples", "0"}
				o := process(t, cli.Done, append(append(args, strings.Fields(c.flags)...), "--ranks", size)...)
				note := "NCCL 2.28.7 sums gradients over " + size + " GPUs"
				models[i] = readFile(t, filepath.Join(out, "model.safetensors"))
				if both[i] = losses(t, out); strings.Contains(o.stderr, note) != (size != "1") {
					t.Error(o)
				}
				if strings.Contains(c.flags, "max-memory") && !strings.Contains(o.stdout, "in passes of up to 64 tokens") {
					t.Error("there is room for wider passes: ", o)
				}
			}
			if c.tolerance == 0 && !bytes.Equal(models[0], models[1]) {
				t.Errorf("the model has other bits on %s ranks than on one", c.size)
			}
			for i, one := range both[0] {
				if math.Abs(both[1][i]-one) > c.tolerance*one {
					t.Errorf("step %d: the loss is %v on %s ranks, %v on one", i+1, both[1][i], c.size, one)
				}
			}
		})
	}
}
