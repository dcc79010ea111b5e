package session

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of a command that a signal ended, as shells have them.
const (
	CodeInterrupted = 130
	CodeTerminated  = 143
	CodeClosed      = 141 // SIGPIPE: its output was closed
)

// A SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Sig os.Signal }

func (e SignalError) Error() string { return "told to stop (" + e.Sig.String() + ")" }

func (e SignalError) Unwrap() error { return context.Canceled }

// Code is the exit code of a command that the signal ended.
func (e SignalError) Code() int {
	if e.Sig == syscall.SIGTERM {
		return CodeTerminated
	}
	return CodeInterrupted
}

// UntilSignal returns a context that ends with a signalError at SIGINT or SIGTERM. After stop the signals have their
// default effect on the process, and so has a second one.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			end(SignalError{sig})
		case <-ctx.Done():
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		end(nil)
	}
}

// TakePipes makes each write to a closed standard output or standard error fail, from now on. Without it
// the first such write ends the process. The signal is taken and not ignored: a program that an agent
// starts inherits an ignored signal.
func TakePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Signalled is the signal that ended a context, if one has.
func Signalled(ctx context.Context) (sig SignalError, ok bool) {
	ok = errors.As(context.Cause(ctx), &sig)
	return sig, ok
}
