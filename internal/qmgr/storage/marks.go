package storage

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/streams"
	"ferry/internal/security/keyfile"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

const (
	MarksFile  = "marks.json" // beside the library's own store
	MarksEvery = 5 * time.Second
)

// Marks is the queue manager's memory of its store, in a file beside it.
type Marks struct {
	V       int                     `json:"v"`
	Ended   bool                    `json:"ended"` // in order: the next start must find the same store
	Streams map[string]streams.Mark `json:"streams"`
}

func (s *Store) MarksPath() string { return filepath.Join(s.Cfg.Dir, MarksFile) }

// LoadMarks reads the marks. Marks that cannot be read count as none: they prove nothing.
func (s *Store) LoadMarks() Marks {
	var m Marks
	data, err := os.ReadFile(s.MarksPath())
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Noticed("the record of its store cannot be read, so that a loss could not be noticed: %v", err)
	}
	return m
}

// NoteOpenPaths records the identities of the directory and of the store in it.
func (s *Store) NoteOpenPaths() error {
	for _, name := range []string{lockName, server.JetStreamStoreDir} {
		p, err := filelock.PathIdentityOf(filepath.Join(s.Cfg.Dir, name))
		if err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the queue manager's directory %s cannot be looked at: %w", s.Cfg.Dir, err)
		}
		s.openPaths = append(s.openPaths, p)
	}
	return nil
}

// Taken reports whether the queue manager's directory, or the store in it, was
// removed, renamed or replaced while it ran.
func (s *Store) Taken() bool {
	for _, p := range s.openPaths {
		if err := p.Check(); err != nil {
			s.lost = transfer.Errorf(transfer.KindNoManager, "the directory of queue manager %s was taken away: %w", s.Cfg.Name, err).
				WithHint("start it again; accepted transfers are in the ledgers of the agents")
			close(s.gone)
			return true
		}
	}
	return false
}

// Gone returns a channel that is closed within MarksEvery after the queue manager's directory was taken away: it must
// be shut down. Lost returns the reason then.
func (s *Store) Gone() <-chan struct{} { return s.gone }

// Lost returns nil until Gone is closed.
func (s *Store) Lost() error {
	select {
	case <-s.gone:
		return s.lost
	default:
		return nil
	}
}

// SaveMarks writes the marks to a new file, syncs and renames it.
func (s *Store) SaveMarks(m Marks) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}

	return keyfile.Replace(s.MarksPath(), data)
}

// StoreOf asks a server for the state of its streams. The library reads data that a change of the claims writes: so
// StoreOf holds the lock of such changes.
func StoreOf(s *Store, ns *server.Server) (*server.JSInfo, error) {
	s.Admitting.Lock()
	defer s.Admitting.Unlock()
	return ns.Jsz(&server.JSzOptions{Streams: true})
}

// marksOf asks a server for the marks of its streams.
func (s *Store) marksOf(ns *server.Server) (map[string]streams.Mark, error) {
	j, err := StoreOf(s, ns)
	if err != nil {
		return nil, err
	}

	all := map[string]streams.Mark{}
	for _, a := range j.AccountDetails {
		for _, st := range a.Streams {
			if a.Id == s.AccountName {
				all[st.Name] = streams.Mark{Created: st.Created, Last: st.State.LastSeq}
			}
		}
	}
	return all, nil
}

// Remember keeps the marks up to date until the server ends.
func (s *Store) Remember() {
	t := time.NewTicker(MarksEvery)
	defer t.Stop()
	for over, said := false, ""; ; {
		if s.Taken() {
			return // later writes would not be found
		}
		now, err := s.marksOf(s.NS)
		if err == nil && (s.Known == nil || !maps.EqualFunc(s.Known, now, streams.Mark.Equal)) {
			if err = s.SaveMarks(Marks{1, false, now}); err == nil {
				s.Known = now
			}
		}
		if err == nil {
			said = ""
		} else if why := err.Error(); why != said { // once at each change
			said = why
			s.Cfg.Log.Warn("the record of the queue manager's store cannot be written", slog.Any("error", err))
		}
		if over {
			return
		}
		select {
		case <-t.C:
		case <-s.Ending:
			over = true
		}
	}
}

// Leave records that the server has ended in order.
func (s *Store) Leave() {
	if s.Known == nil || s.Lost() != nil {
		return
	}
	if err := s.SaveMarks(Marks{1, true, s.Known}); err != nil {
		s.Cfg.Log.Warn("the record of the queue manager's store cannot be written", slog.Any("error", err))
	}
}
