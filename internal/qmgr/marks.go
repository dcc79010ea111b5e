package qmgr

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
	marksFile  = "marks.json" // beside the library's own store
	marksEvery = 5 * time.Second
)

// marks is the queue manager's memory of its store, in a file beside it.
type marks struct {
	V       int                     `json:"v"`
	Ended   bool                    `json:"ended"` // in order: the next start must find the same store
	Streams map[string]streams.Mark `json:"streams"`
}

func (s *disk) marksPath() string { return filepath.Join(s.cfg.dir, marksFile) }

// loadMarks reads the marks. Marks that cannot be read count as none: they prove nothing.
func (s *disk) loadMarks() marks {
	var m marks
	data, err := os.ReadFile(s.marksPath())
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.noticed("what it remembers of its store cannot be read, so that a loss could not be told: %v", err)
	}
	return m
}

// notePlaces records the identities of the directory and of the store in it.
func (s *disk) notePlaces() error {
	for _, name := range []string{lockName, server.JetStreamStoreDir} {
		p, err := filelock.PlaceOf(filepath.Join(s.cfg.dir, name))
		if err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the queue manager's directory %s cannot be looked at: %w", s.cfg.dir, err)
		}
		s.places = append(s.places, p)
	}
	return nil
}

// taken reports whether the queue manager's directory, or the store in it, was
// removed, renamed or replaced while it ran.
func (s *disk) taken() bool {
	for _, p := range s.places {
		if err := p.Check(); err != nil {
			s.lost = transfer.Errorf(transfer.KindNoManager, "the directory of queue manager %s was taken away: %w", s.cfg.name, err).
				WithHint("start it again; what agents have accepted is in their ledgers")
			close(s.gone)
			return true
		}
	}
	return false
}

// Gone returns a channel that is closed within marksEvery after the queue manager's directory was taken away: it must
// be shut down. Lost returns the reason then.
func (s *disk) Gone() <-chan struct{} { return s.gone }

// Lost returns nil until Gone is closed.
func (s *disk) Lost() error {
	select {
	case <-s.gone:
		return s.lost
	default:
		return nil
	}
}

// saveMarks writes the marks to a new file, syncs and renames it.
func (s *disk) saveMarks(m marks) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}

	return keyfile.Replace(s.marksPath(), data)
}

// storeOf asks a server for the state of its streams. The library reads data that a change of the claims writes: so
// storeOf holds the lock of such changes.
func storeOf(s *disk, ns *server.Server) (*server.JSInfo, error) {
	s.admitting.Lock()
	defer s.admitting.Unlock()
	return ns.Jsz(&server.JSzOptions{Streams: true})
}

// marksOf asks a server for the marks of its streams.
func (s *disk) marksOf(ns *server.Server) (map[string]streams.Mark, error) {
	j, err := storeOf(s, ns)
	if err != nil {
		return nil, err
	}

	all := map[string]streams.Mark{}
	for _, a := range j.AccountDetails {
		for _, st := range a.Streams {
			if a.Id == s.accountName {
				all[st.Name] = streams.Mark{Created: st.Created, Last: st.State.LastSeq}
			}
		}
	}
	return all, nil
}

// remember keeps the marks up to date until the server ends.
func (s *disk) remember() {
	t := time.NewTicker(marksEvery)
	defer t.Stop()
	for over, said := false, ""; ; {
		if s.taken() {
			return // later writes would not be found
		}
		now, err := s.marksOf(s.ns)
		if err == nil && (s.known == nil || !maps.EqualFunc(s.known, now, streams.Mark.Equal)) {
			if err = s.saveMarks(marks{1, false, now}); err == nil {
				s.known = now
			}
		}
		if err == nil {
			said = ""
		} else if why := err.Error(); why != said { // once at each change
			said = why
			s.cfg.log.Warn("what the queue manager remembers of its store cannot be written", slog.Any("error", err))
		}
		if over {
			return
		}
		select {
		case <-t.C:
		case <-s.ending:
			over = true
		}
	}
}

// leave records that the server has ended in order.
func (s *disk) leave() {
	if s.known == nil || s.Lost() != nil {
		return
	}
	if err := s.saveMarks(marks{1, true, s.known}); err != nil {
		s.cfg.log.Warn("what the queue manager remembers of its store cannot be written", slog.Any("error", err))
	}
}
