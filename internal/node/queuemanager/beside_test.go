package queuemanager

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/node/process"
	"ferry/internal/transfer"
)

// A besideBench has services and a list of their steps.
type besideBench struct {
	*services
	log  bytes.Buffer
	done []string
}

func newBesideBench(ctx context.Context) *besideBench {
	b := &besideBench{}
	run, end := context.WithCancelCause(ctx)
	b.services = &services{ctx: run, end: end, log: slog.New(slog.NewTextHandler(&b.log, nil))}
	return b
}

func (b *besideBench) did(step string) { b.done = append(b.done, step) }

// starts returns the start function of a service. Its first tries fail with errors in turn, and the next one runs.
func (b *besideBench) starts(name string, errs ...error) func() (run, stop func(), err error) {
	return func() (run, stop func(), err error) {
		if len(errs) > 0 {
			err, errs = errs[0], errs[1:]
			b.did(name + ": " + err.Error())
			return nil, nil, err
		}
		b.did(name + " runs")
		return func() {}, func() { b.did(name + " stops") }, nil
	}
}

// A service that cannot use its files is degraded alone: those behind it start, and it is tried again once a minute until it runs.
func TestAServiceIsDegradedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBesideBench(t.Context())
		damaged := errors.New("damaged")
		told := func(err error) { b.did("told " + err.Error()) }
		dir := t.TempDir()
		if err := b.run(service{name: "coordination", dir: dir, degraded: told, start: b.starts("coordination", damaged, damaged, errors.New("worse"))}); err != nil {
			t.Fatal(err)
		}
		if err := b.run(service{name: "agent", dir: dir, start: b.starts("agent")}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		want := []string{"coordination: damaged", "told damaged", "agent runs"}
		for n, more := range [][]string{{}, {"coordination: damaged", "told damaged"}, {"coordination: worse", "told worse"}, {"coordination runs"}} {
			time.Sleep(time.Until(began.Add(time.Duration(n)*time.Minute + time.Second)))
			synctest.Wait()
			if want = append(want, more...); !slices.Equal(b.done, want) {
				t.Fatalf("after %d minutes: %q, want %q", n, b.done, want)
			}
		}
		if b.ctx.Err() != nil {
			t.Error("the process ends")
		}
		b.stop()
		if want = append(want, "coordination stops", "agent stops"); !slices.Equal(b.done, want) {
			t.Errorf("%q, want %q", b.done, want)
		}
		if text := b.log.String(); strings.Count(text, "error=damaged") != 1 || strings.Count(text, "error=worse") != 1 || strings.Count(text, "service started") != 1 {
			t.Errorf("the log says %s", text)
		}
	})
}

// A degraded service is tried as soon as its files have changed and are at rest: never during a restore.
func TestADegradedServiceIsTriedWhenItsFilesAreAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBesideBench(t.Context())
		dir := t.TempDir()
		write := func(size int) {
			if err := os.WriteFile(filepath.Join(dir, "records"), make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(1)
		if err := b.run(service{name: "coordination", dir: dir, degraded: func(error) {}, start: b.starts("coordination", errors.New("damaged"))}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookPause / 2) // between two checks
		for n := range 5 {        // a copy that takes 10 s
			time.Sleep(lookPause)
			write(n + 2)
			synctest.Wait()
		}
		if len(b.done) != 1 {
			t.Errorf("it is tried while the files change: %q", b.done)
		}
		time.Sleep(3 * lookPause)
		synctest.Wait()
		if len(b.done) != 2 {
			t.Errorf("it is not tried soon after the files have changed: %q", b.done)
		}
		b.stop()
	})
}

// An error of a service that is not to be degraded ends the process, at once or later. So does a service that another
// process has already, where it is found at the start.
func TestServicesThatEndTheProcess(t *testing.T) {
	full, wrong, alive := error(syscall.ENOSPC), errors.New("wrong"), transfer.Errorf(transfer.KindAlive, "another one")
	never := func(err error) { t.Errorf("degraded: %v", err) }
	synctest.Test(t, func(t *testing.T) {
		b := newBesideBench(t.Context())
		if err := b.run(service{name: "agent", start: b.starts("agent", wrong)}); err != wrong {
			t.Errorf("at once: %v", err)
		}
		if err := b.run(service{name: "coordination", degraded: never, start: b.starts("coordination", alive)}); transfer.KindOf(err) != transfer.KindAlive {
			t.Errorf("another one runs: %v", err)
		}
		if err := b.run(service{name: "agent", start: b.starts("agent", full, wrong)}); err != nil {
			t.Errorf("a full disk: %v", err)
		}
		time.Sleep(2 * process.FullPause)
		synctest.Wait()
		if context.Cause(b.ctx) != wrong {
			t.Errorf("the process goes on: %v", context.Cause(b.ctx))
		}
		b.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBesideBench(t.Context())
		damaged := errors.New("damaged")
		if err := b.run(service{name: "coordination", dir: t.TempDir(), degraded: func(error) {}, start: b.starts("coordination", full, damaged, alive, full)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if b.ctx.Err() != nil || !slices.Contains(b.done, "coordination runs") {
			t.Errorf("it does not run in the end: %v, %q", context.Cause(b.ctx), b.done)
		}
		b.stop()
	})
}
