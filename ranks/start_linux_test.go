package ranks

import (
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestWait_DoesNotWaitForStopped stops one of two ranks. The other ends because of that, and then it is over.
func TestWait_DoesNotWaitForStopped(t *testing.T) {
	defer func(end, save time.Duration) { endWithin, saveWithin = end, save }(endWithin, saveWithin)
	endWithin, saveWithin = time.Hour, time.Hour
	const lost = 33
	for halted := range 2 {
		c := children{done: make(chan int, 2)}
		var ends [2]io.Closer
		for r := range ends {
			p := exec.Command("sh", "-c", "read line; exit 33")
			stdin, err := p.StdinPipe()
			if err == nil {
				err = c.add(p)
			}
			if err != nil {
				t.Fatal(err)
			}
			ends[r] = stdin
		}
		first := c.list[halted].Process
		if err := first.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for !stopped(first) {
			time.Sleep(time.Millisecond)
		}
		ended := make(chan int)
		go func() {
			guilty, _ := c.wait(lost, nil, false)
			ended <- guilty
		}()
		ends[1-halted].Close()
		select {
		case guilty := <-ended:
			if guilty != 1-halted { // whose words say that the other is silent
				t.Errorf("rank %d is stopped, and the one that failed is %d", halted, guilty)
			}
		case <-time.After(time.Minute): // it would take an hour
			t.Fatalf("rank %d is stopped, and is waited for", halted)
		}
	}
}

// TestWait_NotForWhatIsOver ends rank 0 well while another hangs: the run is over, and is no failure.
func TestWait_NotForWhatIsOver(t *testing.T) {
	defer func(end time.Duration) { endWithin = end }(endWithin)
	endWithin = 0
	c := children{done: make(chan int, 2)}
	for _, does := range []string{"exit 0", "exec sleep 3600"} {
		if err := c.add(exec.Command("sh", "-c", does)); err != nil {
			t.Fatal(err)
		}
	}
	if guilty, failed := c.wait(33, nil, false); failed {
		t.Errorf("rank %d has failed", guilty)
	}
}
