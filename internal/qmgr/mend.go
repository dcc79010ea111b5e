package qmgr

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	mendEvery = time.Second
	// What a disk must have again before the store is opened anew: room for a
	// few messages of each stream.
	mendBytes  = 8 << 20
	mendInodes = 32
)

// failures are what the server says of messages that it could not store.
type failures struct{ last atomic.Pointer[string] }

// notStored begins what the server says when a message could not be stored.
const notStored = "JetStream failed to store a msg on stream"

func (f *failures) heard(line string) {
	if strings.HasPrefix(line, notStored) {
		f.last.Store(&line)
	}
}

// mend opens the store anew after a message could not be stored, as soon as
// its disk has space: the library keeps the first error of a file for ever, and
// every later message would be refused, whatever space there is.
func (s *Server) mend(log *serverLog) {
	t := time.NewTicker(mendEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ending:
			return
		}
		line := log.unstored.last.Load()
		if line == nil {
			continue
		}
		if why := "it cannot store messages: " + after(*line, "': "); s.broken.Swap(&why) == nil {
			s.cfg.Log.Warn("the queue manager is degraded", slog.String("error", why))
		}
		if !hasSpace(s.cfg.Dir, mendBytes, mendInodes) {
			continue
		}
		if err := s.reopen(); err != nil {
			s.cfg.Log.Warn("the queue manager's store cannot be opened anew yet", slog.Any("error", err))
			continue
		}
		log.unstored.last.CompareAndSwap(line, nil)
		if log.unstored.last.Load() == nil {
			s.broken.Store(nil)
			s.cfg.Log.Info("the queue manager stores messages again")
		}
	}
}

func after(s, sep string) string {
	if _, rest, ok := strings.Cut(s, sep); ok {
		return rest
	}
	return s
}

// reopen closes the store and opens it again. Connections stay.
func (s *Server) reopen() error {
	if err := s.ns.ShutdownJetStream(); err != nil {
		return err
	}
	return s.ns.EnableJetStream(&server.JetStreamConfig{StoreDir: s.cfg.Dir, SyncAlways: true, Strict: true,
		MaxMemory: serverMaxMemory, MaxStore: s.cfg.MaxStore, CompressOK: true})
}
