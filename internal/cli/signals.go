package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of a command that a signal ended, as shells have them.
const (
	codeInterrupted = 130
	codeTerminated  = 143
	codeClosed      = 141 // SIGPIPE: its output was closed
)

// A signalError is the cause of a context that a signal has ended.
type signalError struct{ sig os.Signal }

func (e signalError) Error() string { return "told to stop (" + e.sig.String() + ")" }

func (e signalError) Unwrap() error { return context.Canceled }

// code is the exit code of a command that the signal ended.
func (e signalError) code() int {
	if e.sig == syscall.SIGTERM {
		return codeTerminated
	}
	return codeInterrupted
}

// untilSignal returns a context that ends with a signalError at SIGINT or SIGTERM. After stop the signals have their
// default effect on the process, and so has a second one.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			end(signalError{sig})
		case <-ctx.Done():
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		end(nil)
	}
}

// takePipes makes each write to a closed standard output or standard error fail, from now on. Without it
// the first such write ends the process. The signal is taken and not ignored: a program that an agent
// starts inherits an ignored signal.
func takePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// signalled is the signal that ended a context, if one has.
func signalled(ctx context.Context) (sig signalError, ok bool) {
	ok = errors.As(context.Cause(ctx), &sig)
	return sig, ok
}
