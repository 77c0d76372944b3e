package ranks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent asks rank 0 to end, with all saved, if the process that started it is killed.
func endWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// stopped reports whether a process is stopped, as by SIGSTOP: it does nothing, and hears no signal but SIGKILL.
func stopped(p *os.Process) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")) // what precedes is the name
	return len(state) > 0 && (state[0] == 'T' || state[0] == 't')
}
