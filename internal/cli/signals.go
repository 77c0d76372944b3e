package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// StopSignals are the signals that end a command in an orderly way: Ctrl-C, a request to terminate, and a closed
// terminal.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// grace is the time after the first signal in which further signals count as the same request: timeout(1) signals the
// process and then its group, and a service manager may do the same.
var grace = time.Second

// StopContext returns a context that the first of these signals cancels. One second later, the signals have their usual
// effect again, so that another one ends the program at once. If SIGHUP was ignored when the program started, as under
// nohup, it stays ignored.
func StopContext(signals ...os.Signal) context.Context {
	first, stop := signal.NotifyContext(context.Background(), Heard(signals)...)
	ctx, cancel := context.WithCancelCause(context.Background())
	context.AfterFunc(first, func() {
		cancel(context.Cause(first))
		time.AfterFunc(grace, stop)
	})
	return ctx
}

// Heard returns signals, without SIGHUP if SIGHUP is ignored: listening would end that.
func Heard(signals []os.Signal) (heard []os.Signal) {
	for _, s := range signals {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			heard = append(heard, s)
		}
	}
	return heard
}
