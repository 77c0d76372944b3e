package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// StopSignals end a command in order: Ctrl-C, a request to end, and a terminal that is closed.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// StopContext returns a context that the first of these signals cancels. They have their usual effect again before that, so
// that a second one ends the program at once. If SIGHUP was ignored when the program began, as nohup has it, it stays ignored.
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
		stop()
		cancel(context.Cause(first))
	})
	return ctx
}
