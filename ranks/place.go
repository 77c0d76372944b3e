// Package ranks connects the processes that share a training run. Each is a rank, with a number from 0, and takes its
// place from the variables that torchrun, mpirun, srun and Kubeflow set, or is started by [Start]. Rank 0 decides, and
// the others follow it: it compares what each of them is about to do, adds up their tensors in the order of the ranks,
// and finds out when one of them is lost.
package ranks

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A Place is the position of this process among the ranks of a run.
type Place struct {
	Rank, Size       int
	Local, LocalSize int    // the rank's number among the ranks of this host, and how many there are
	Addr             string // where rank 0 listens, as host:port; "" if there is only one rank
	Source           string // what set the variables, such as "torchrun"; "" if none are set
	Note             string // what a user should know about Addr; may be empty
	Attempt          string // which attempt of torchrun's this is; ranks of an earlier one are refused

	listener net.Listener // rank 0's, if it is open already
}

// The variables of this package. VariablePort is the port on which rank 0 listens, instead of the one that follows from
// the launcher's variables. variableListener, set by Start, means that file 3 is the listening socket.
const (
	VariablePort     = "RESTYLE_PORT"
	variableListener = "RESTYLE_LISTENER"
)

// A launcher sets these variables.
type launcher struct{ name, rank, size, local, localSize string }

// launchers is in the order in which they count if they agree: srun may also set MPICH's variables.
var launchers = []launcher{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"Kubeflow", "PET_NODE_RANK", "PET_NNODES", "", "PET_NPROC_PER_NODE"},
}

// maxSize is the largest number of ranks: more counts as a mistake.
const maxSize = 4096

// FromEnv returns the place that the variables of a launcher give this process; env is os.Getenv. Without any of them
// it is rank 0 of 1. Launchers start each other: if srun starts torchrun, torchrun's count, and likewise mpirun's.
// Slurm's count only in a step of srun. Others that disagree are an error.
func FromEnv(env func(string) string) (p Place, err error) {
	p = Place{Size: 1, LocalSize: 1}
	var by launcher
	for _, l := range launchers {
		if env(l.rank) == "" && env(l.size) == "" || !l.counts(env) {
			continue
		}
		rank, size, err := l.place(env)
		switch {
		case err != nil:
			return p, err
		case p.Source == "":
			by, p.Source, p.Rank, p.Size = l, l.name, rank, size
		case size == 1: // it has started one process, which has started others
		case l.name == "Kubeflow": // torchrun's processes in its pods also have its variables
		case rank != p.Rank || size != p.Size:
			return p, fmt.Errorf("%s says that this is rank %d of %d (%s, %s), and %s that it is rank %d of %d (%s, %s): "+
				"unset those of one", p.Source, p.Rank, p.Size, by.rank, by.size, l.name, rank, size, l.rank, l.size)
		}
	}
	if p.Size == 1 {
		return p, nil
	}
	p.Attempt = env("TORCHELASTIC_RESTART_COUNT")
	if err := p.local(by, env); err != nil {
		return p, err
	}
	return p, p.address(env)
}

// counts reports whether the launcher started this process itself, and not the launcher that did.
func (l launcher) counts(env func(string) string) bool {
	switch l.name {
	case "torchrun":
		return true
	case "Slurm":
		return env("SLURM_STEP_ID") != "" && env("OMPI_COMM_WORLD_RANK") == "" && env("TORCHELASTIC_RUN_ID") == ""
	}
	return env("TORCHELASTIC_RUN_ID") == ""
}

// place reads the rank and the number of ranks.
func (l launcher) place(env func(string) string) (rank, size int, err error) {
	size, err = number(env, l.size, 1, maxSize)
	if err == nil {
		rank, err = number(env, l.rank, 0, size-1)
	}
	if n := env("PET_NPROC_PER_NODE"); err == nil && l.name == "Kubeflow" && size > 1 && n != "" && n != "1" {
		err = fmt.Errorf("PET_NPROC_PER_NODE %q: without torchrun a node is one rank: set it to 1, or start this program "+
			"by torchrun --no-python", n)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.name, err)
	}
	return rank, size, err
}

func number(env func(string) string, name string, least, most int) (int, error) {
	n, err := strconv.Atoi(env(name))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s %q: must be a number from %d to %d", name, env(name), least, most)
	}
	return n, nil
}

// local sets the place on this host. Slurm's number of tasks is taken from its first node: 2 for "2(x3),1".
func (p *Place) local(l launcher, env func(string) string) (err error) {
	if l.local != "" && env(l.local) != "" {
		if p.Local, err = number(env, l.local, 0, p.Size-1); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	text := env(l.localSize)
	digits := strings.TrimRight(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))], " ")
	n, _ := strconv.Atoi(digits) // not known: as many as are known of
	p.LocalSize = min(max(n, p.Local+1), p.Size)
	return nil
}

// defaultPort is where rank 0 listens if nothing says where.
const defaultPort = 29511

// address sets the address of rank 0. Under torchrun, its agent listens on MASTER_PORT itself and speaks PyTorch's
// protocol there.
func (p *Place) address(env func(string) string) error {
	host := cmp.Or(env("MASTER_ADDR"), env("PET_MASTER_ADDR"))
	if host == "" && p.Source == "Slurm" {
		host = firstNode(cmp.Or(env("SLURM_STEP_NODELIST"), env("SLURM_JOB_NODELIST")))
	}
	if host == "" && p.LocalSize == p.Size {
		host = "127.0.0.1"
	}
	if host == "" {
		return fmt.Errorf("%s does not say where rank 0 is: set MASTER_ADDR to its host on every rank", p.Source)
	}
	port := defaultPort
	from := cmp.Or(env("MASTER_PORT"), env("PET_MASTER_PORT"))
	switch {
	case env(VariablePort) != "":
		from = env(VariablePort)
	case from == "" && p.Source == "Slurm":
		job, _ := strconv.Atoi(env("SLURM_JOB_ID"))
		port = 20000 + job%10000
	}
	if from != "" {
		n, err := strconv.Atoi(from)
		if err != nil || n < 1 || n > 65534 {
			return fmt.Errorf("MASTER_PORT or %s %q: must be a port from 1 to 65534", VariablePort, from)
		}
		port = n
	}
	if env("TORCHELASTIC_USE_AGENT_STORE") == "True" && env(VariablePort) == "" {
		port++
		p.Note = fmt.Sprintf("torchrun's agent listens on MASTER_PORT %s: the ranks meet on port %d (%s changes it)", from,
			port, VariablePort)
	}
	p.Addr = net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// firstNode returns the first host of a list as Slurm writes it: "gpu03" of "gpu[03-05,09],login1".
func firstNode(list string) string {
	first, rest, bracket := strings.Cut(list, "[")
	if comma := strings.IndexByte(first, ','); comma >= 0 {
		return first[:comma]
	}
	if !bracket {
		return first
	}
	inside, after, _ := strings.Cut(rest, "]")
	number, _, _ := strings.Cut(inside, ",")
	number, _, _ = strings.Cut(number, "-")
	after, _, _ = strings.Cut(after, ",")
	if strings.Contains(after, "[") {
		return "" // a list in several dimensions: MASTER_ADDR must name it
	}
	return first + number + after
}

// Device returns the device of this rank from the name that the ranks of a host are given. A name such as cuda:all or
// cuda:0,1 is a list of GPUs, one per rank. cuda or auto is the GPU with the rank's number among the ranks of its
// host, or the only GPU: a launcher may show each process only its own. Any other name is a device's. gpus lists the
// numbers of the GPUs.
func (p Place) Device(name string, gpus func() []int) (string, error) {
	list, listed, err := Devices(name, gpus)
	if err != nil {
		return "", err
	}
	if !listed && name != "cuda" && name != "auto" || p.Size == 1 && !listed {
		return name, nil
	}
	if !listed {
		list = gpus()
	}
	switch n := len(list); {
	case n == 0 && name == "auto":
		return "cpu", nil
	case n == 0:
		return name, nil // opening it says why there is none
	case n == 1 && !listed:
		return fmt.Sprintf("cuda:%d", list[0]), nil
	case p.Local >= n:
		return "", fmt.Errorf("%s: there are %d GPUs, and this is rank %d of this host: start one rank for each GPU", name, n,
			p.Local)
	}
	return fmt.Sprintf("cuda:%d", list[p.Local]), nil
}

// Devices returns the numbers of the GPUs that a name such as cuda:all or cuda:0,1 lists, and whether it lists any.
func Devices(name string, gpus func() []int) (list []int, listed bool, err error) {
	numbers, ok := strings.CutPrefix(name, "cuda:")
	switch {
	case numbers == "all":
		if list = gpus(); len(list) == 0 {
			return nil, true, fmt.Errorf("%s: there is no GPU that can be used", name)
		}
		return list, true, nil
	case !ok || !strings.Contains(numbers, ","):
		return nil, false, nil
	}
	for text := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || slices.Contains(list, n) {
			return nil, true, fmt.Errorf("%q: must list different GPUs by their numbers, as in cuda:0,1", name)
		}
		list = append(list, n)
	}
	return list, true, nil
}

// Settle completes p by what the flags --ranks (count, 0 if it is not given) and --device ask for, and returns this
// rank's device. If several ranks are asked for and no launcher has started them, start is true, and p is rank 0's
// place. An error starts with the name of a flag.
func (p *Place) Settle(count int, device string, gpus func() []int) (own string, start bool, err error) {
	list, listed, err := Devices(device, gpus)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("device %w", err)
	case count < 0 || count > maxSize:
		return "", false, fmt.Errorf("ranks %d: must be from 1 to %d, or 0", count, maxSize)
	case count > 0 && listed && count != len(list):
		return "", false, fmt.Errorf("ranks %d and device %s, which is %d GPUs: leave ranks out", count, device, len(list))
	case count > 0 && p.Size > 1 && count != p.Size:
		return "", false, fmt.Errorf("ranks %d, and %s has started %d: leave it out", count, p.Source, p.Size)
	}
	if count == 0 && listed {
		count = len(list)
	}
	if start = count > 1 && p.Size == 1; start {
		p.Size, p.LocalSize = count, count
	}
	if own, err = p.Device(device, gpus); err != nil {
		return "", false, fmt.Errorf("device %w", err)
	}
	return own, start, nil
}

// Threads returns this rank's number of CPU threads: the ranks of a host share its threads. A single rank has as many
// as asked for, even if that is 0, which means all. So does a rank that srun or mpirun has bound to its own part of
// the host's CPUs, if none are asked for.
func (p Place) Threads(asked int) int {
	online, _ := os.ReadFile("/sys/devices/system/cpu/online") // only Linux has it, and binds
	return p.threads(asked, runtime.GOMAXPROCS(0), runtime.NumCPU() < cpus(strings.TrimSpace(string(online))))
}

func (p Place) threads(asked, all int, bound bool) int {
	binds := p.Source != "" && p.Source != "torchrun" // whose ranks, like Start's, have the CPUs of their parent
	if p.LocalSize <= 1 || asked == 0 && bound && binds {
		return asked
	}
	return max(1, cmp.Or(asked, all)/p.LocalSize)
}

// cpus returns the number of CPUs in a list as Linux writes it, such as 0-3,8, and 0 for anything else.
func cpus(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			return 0
		}
		n += last - first + 1
	}
	return n
}
