package check

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"restyle/internal/expect"
)

// fields are the names in the YAML files of deploy/. Those of Kubernetes are in the schemas of Kubeflow Trainer 2.0 to
// 2.2 and JobSet 0.8 to 0.11; look a new one up there before you add it here.
var fields = strings.Fields(`
	apiVersion kind metadata name labels trainer.kubeflow.org/trainjob-ancestor-step spec runtimeRef apiGroup
	trainer numNodes numProcPerNode args mlPolicy torch template failurePolicy maxRestarts restartStrategy rules
	action onJobFailureReasons replicatedJobs backoffLimit podFailurePolicy onExitCodes containerName operator
	values restartPolicy terminationGracePeriodSeconds securityContext runAsUser runAsGroup fsGroup containers
	image command workingDir env value resources limits nvidia.com/gpu volumeMounts mountPath volumes
	persistentVolumeClaim claimName emptyDir medium sizeLimit accessModes requests storage services train build
	NCCL shm_size stop_grace_period deploy reservations devices driver device_ids capabilities`)

// addValues adds what a document has, by the names of the fields that lead to it.
func addValues(t *testing.T, values map[string][]string, path string, x any) {
	switch x := x.(type) {
	case map[string]any:
		for name, of := range x {
			if !slices.Contains(fields, name) {
				t.Errorf("%s.%s is not a known field", path, name)
			}
			addValues(t, values, path+"."+name, of)
		}
	case []any:
		for _, of := range x {
			addValues(t, values, path, of)
		}
	default:
		values[path] = append(values[path], fmt.Sprint(x))
	}
}

// testDeploy runs what the files in deploy/ start, with programs that only note how they are called.
func testDeploy(t *testing.T, all commands) {
	deploy, _ := filepath.Abs(filepath.Join(root, "deploy"))
	values := map[string][]string{}
	for _, name := range []string{"trainjob.yaml", "compose.gpus.yaml"} {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var x map[string]any
			if err == nil {
				err = yaml.Unmarshal(document, &x)
			}
			kind, _ := x["kind"].(string)
			addValues(t, values, kind, x)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	const pod = "TrainingRuntime.spec.template.spec.replicatedJobs.template.spec.template.spec.containers.command"
	inPod := slices.Concat(values[pod], values["TrainJob.spec.trainer.args"])
	compose := append([]string{"train"}, values[".services.train.command"]...)
	slurm, mpi := []string{deploy + "/slurm.sh"}, []string{deploy + "/mpirun.sh", "hosts"}

	fakes := t.TempDir()
	fake := "#!/bin/sh\necho \"${0##*/} $*\" >>calls\n[ ${0##*/} = scontrol ] || exit $CODE\n"
	for _, name := range []string{"train", "srun", "scontrol", "mpirun"} {
		expect.OK(t, os.WriteFile(filepath.Join(fakes, name), []byte(fake), 0o755))
	}
	t.Setenv("PATH", fakes+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name    string
		command []string
		code    int    // of train
		turns   int    // how often it was started before
		calls   string // a part of the first call
		last    string // the program that is called last
	}{
		{"compose", compose, 0, 0, "--device cuda:all", "train"},
		{"pod", inPod, 33, 0, "--out out --fused", "train"},
		{"pod again", inPod, 33, 1, " --resume", "train"},
		{"mpirun", mpi, 33, 0, "MASTER_ADDR=node1 train", "mpirun"},
		{"mpirun again", mpi, 0, 1, "--out out --resume", "mpirun"},
		{"slurm", slurm, 2, 0, "--kill-on-bad-exit=1", "srun"},
		{"slurm, out of time", slurm, 34, 1, "--out out --resume", "scontrol"},
		{"slurm, out of turns", slurm, 33, 10, "--out out --resume", "srun"},
	} {
		run := exec.Command("bash", append([]string{"-c", `printf '# x\n\nnode1 slots=8\n' >hosts
			[ $SLURM_RESTART_COUNT = 0 ] || { mkdir out && touch out/run.json; }; exec "$@"`, "-"}, c.command...)...)
		run.Dir = t.TempDir()
		run.Env = append(os.Environ(), fmt.Sprint("CODE=", c.code), fmt.Sprint("SLURM_RESTART_COUNT=", c.turns))
		out, _ := run.CombinedOutput()
		text, _ := os.ReadFile(filepath.Join(run.Dir, "calls"))
		calls := strings.Split(strings.TrimSpace(string(text)), "\n")
		_, flags, _ := strings.Cut(" "+calls[0], " train ")
		if code := run.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(calls[len(calls)-1], c.last+" ") ||
			!strings.Contains(calls[0], c.calls) || strings.Contains(flags, "--resume") != (c.turns > 0) ||
			all.check(t, c.name, "train", " "+flags) == 0 {
			t.Errorf("%s: exit %d: %q\n%s", c.name, code, calls, out)
		}
	}
}
