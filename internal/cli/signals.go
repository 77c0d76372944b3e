package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// StopSignals end a command in order: Ctrl-C, a request to end, and a terminal that is closed.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// grace is how long after the first signal another one counts as the same wish: timeout(1) signals the process and then
// its group, and a service manager may do the like.
var grace = time.Second

// StopContext returns a context that the first of these signals cancels. A second later they have their usual effect
// again, so that another one then ends the program at once. If SIGHUP was ignored when the program began, as nohup has
// it, it stays ignored.
func StopContext(signals ...os.Signal) context.Context {
	var heard []os.Signal
	for _, s := range signals {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			heard = append(heard, s)
		}
	}
	first, stop := signal.NotifyContext(context.Background(), heard...)
	ctx, cancel := context.WithCancelCause(context.Background())
	context.AfterFunc(first, func() {
		cancel(context.Cause(first))
		time.AfterFunc(grace, stop)
	})
	return ctx
}
