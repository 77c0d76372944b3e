package ranks

import (
	"fmt"
	"strings"
	"testing"
)

// TestFromEnv has the variables that launchers set, as they were recorded or documented, and mixtures of them.
func TestFromEnv(t *testing.T) {
	const torch = "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29500 "
	const agent = torch + "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=1 "
	const mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
	const slurm = "SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_STEP_ID=0 SLURM_JOB_ID=70123 " +
		"SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NODELIST=gpu[03-04] "
	const pet = "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29500 "
	for _, c := range []struct{ env, want string }{ // rank/size local/size addr source, or part of an error
		{"", "0/1 0/1  "},
		{"WORLD_SIZE=1 RANK=0", "0/1 0/1  torchrun"},
		{"SLURM_PROCID=0 SLURM_NTASKS=4", "0/1 0/1  "}, // in a script of sbatch, which starts one process
		{torch, "3/4 1/2 h0:29500 torchrun"},
		{agent, "3/4 1/2 h0:29501 torchrun"},
		{agent + "RESTYLE_PORT=7000", "3/4 1/2 h0:7000 torchrun"},
		{agent + slurm, "3/4 1/2 h0:29501 torchrun"}, // under srun, one agent per node
		{agent + pet, "3/4 1/2 h0:29501 torchrun"},
		{mpi, "1/2 1/2 127.0.0.1:29511 Open MPI"},
		{mpi + slurm, "1/2 1/2 127.0.0.1:29511 Open MPI"}, // mpirun in an allocation
		{mpi + "MASTER_ADDR=a MASTER_PORT=5", "1/2 1/2 a:5 Open MPI"},
		{"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "0/2 0/2 127.0.0.1:29511 MPICH"},
		{slurm, "2/4 0/2 gpu03:20123 Slurm"},
		{slurm + "PMI_RANK=2 PMI_SIZE=4", "2/4 0/2 gpu03:20123 Slurm"}, // srun sets both
		{pet, "1/2 0/1 job-node-0-0.job:29500 Kubeflow"},
		{pet + "PET_NPROC_PER_NODE=1", "1/2 0/1 job-node-0-0.job:29500 Kubeflow"},

		{torch + "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0", "3/4 1/2 h0:29500 torchrun"}, // train --ranks under srun

		{torch + mpi, "torchrun says that this is rank 3 of 4 (RANK, WORLD_SIZE), and Open MPI that it is rank 1 of 2"},
		{torch + slurm, "torchrun says that this is rank 3 of 4 (RANK, WORLD_SIZE), and Slurm that it is rank 2 of 4"},
		{"PMI_RANK=0 PMI_SIZE=2 " + mpi, "(PMI_RANK, PMI_SIZE)"},
		{"RANK=1", `WORLD_SIZE ""`},
		{"WORLD_SIZE=2", `RANK ""`},
		{"RANK=2 WORLD_SIZE=2", `RANK "2": must be a number from 0 to 1`},
		{"RANK=0 WORLD_SIZE=99999", "WORLD_SIZE"},
		{"RANK=0 WORLD_SIZE=2", "torchrun does not say where rank 0 is: set MASTER_ADDR"},
		{torch + "RESTYLE_PORT=no", `RESTYLE_PORT "no"`},
		{pet + "PET_NPROC_PER_NODE=8", `PET_NPROC_PER_NODE "8": without torchrun a node is one rank`},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		p, err := FromEnv(func(name string) string { return env[name] })
		got := fmt.Sprintf("%d/%d %d/%d %s %s", p.Rank, p.Size, p.Local, p.LocalSize, p.Addr, p.Source)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && !(err != nil && strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.env, got, c.want)
		}
	}
}

func TestFirstNode(t *testing.T) {
	for list, want := range map[string]string{"": "", "a": "a", "a,b": "a", "gpu[03-05,09],login1": "gpu03",
		"n[7]-ib,x": "n7-ib", "r1,n[1-2]": "r1", "r[1-2]n[3-4]": ""} {
		if got := firstNode(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestPlace_Device(t *testing.T) {
	for _, c := range []struct {
		name        string
		local, size int
		gpus        []int
		want        string
	}{
		{"cpu", 1, 2, nil, "cpu"}, {"auto", 1, 2, nil, "cpu"}, {"auto", 0, 1, []int{0, 1}, "auto"},
		{"auto", 1, 2, []int{0, 1}, "cuda:1"}, {"cuda", 1, 2, []int{0, 1}, "cuda:1"}, {"cuda", 0, 1, []int{0}, "cuda"},
		{"cuda", 1, 2, []int{0}, "cuda:0"}, // Slurm shows each of its tasks its own
		{"cuda:all", 1, 2, []int{3, 5}, "cuda:5"}, {"cuda:2,1", 1, 2, nil, "cuda:1"}, {"cuda:2,1", 0, 1, nil, "cuda:2"},
		{"cuda", 2, 3, []int{0, 1}, "start one rank for each GPU"}, {"cuda:all", 0, 2, nil, "no GPU"},
		{"cuda:0,0", 0, 2, nil, "different GPUs"}, {"cuda:0,x", 0, 2, nil, "different GPUs"}, {"cuda:1", 0, 2, nil, "cuda:1"},
	} {
		got, err := Place{Local: c.local, Size: c.size}.Device(c.name, func() []int { return c.gpus })
		if got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestPlace_Threads has hosts of 8 CPUs and launchers that bind ranks to some of them.
func TestPlace_Threads(t *testing.T) {
	for _, c := range []struct {
		source           string
		size, asked, all int
		bound            bool
		want             int
	}{
		{"", 1, 0, 8, false, 0}, {"", 1, 3, 8, false, 3}, {"Slurm", 4, 0, 8, false, 2}, {"Slurm", 4, 0, 2, true, 0},
		{"Slurm", 4, 8, 2, true, 2}, {"Open MPI", 2, 0, 1, true, 0}, {"torchrun", 2, 0, 4, true, 2}, {"", 16, 0, 8, false, 1},
	} {
		if got := (Place{Source: c.source, LocalSize: c.size}).threads(c.asked, c.all, c.bound); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for list, want := range map[string]int{"": 0, "0": 1, "0-3,8": 5, "0-1,4-7": 6, "x-2": 0} {
		if got := cpus(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}
