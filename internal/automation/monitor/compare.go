package monitor

import (
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A missing file stays in the history for keptGone, so that a share that is empty for a while does not make Ferry send
// all its files again. The time is halved for each goneLimit missing files.
const (
	keptGone  = 7 * 24 * time.Hour
	goneLimit = 100_000
)

// dropped is the value of gone for an entry to be deleted.
const dropped = -1

// A comparison reads the history beside the files of a poll, both in one order. It collects the changes of entries.
type comparison struct {
	history *cursor
	collect *collector
	now     time.Time
	keeps   time.Duration // time that missing files stay in the history
	unread  []string      // keys of directories that were not read, so that their files are unknown
	gone    int           // missing files
}

// keepsGone returns the time that missing files stay in the history, by their number at the last poll.
func keepsGone(gone int) time.Duration { return keptGone >> min(gone/goneLimit, 30) }

// before returns the history entry of a file. It handles the entries before that as missing files.
func (c *comparison) before(key string) (*known, error) {
	for {
		e, err := c.history.peek()
		if err != nil || e == nil || e.key > key {
			return nil, err
		}
		c.history.next()
		if e.key == key && e.damaged != nil {
			return nil, c.unreadable(*e)
		}
		if e.key == key {
			return e, nil
		}
		if err := c.missing(*e); err != nil {
			return nil, err
		}
	}
}

// rest handles the entries after the last file as missing files.
func (c *comparison) rest() error {
	for {
		e, err := c.history.peek()
		if err != nil || e == nil {
			return err
		}
		c.history.next()
		if err := c.missing(*e); err != nil {
			return err
		}
	}
}

// there records that a file of the history exists again.
func (c *comparison) there(e *known) error {
	if e.gone == 0 {
		return nil
	}
	e.gone = 0
	return c.collect.mark(*e)
}

// unreadable forgets a damaged entry. The entry does not show whether this version of the file was sent: if the file
// exists, it is sent again, so that none is lost.
func (c *comparison) unreadable(e known) error {
	b := c.collect.book
	b.services.Log.Error("read entry in history of monitor failed; the file is sent again if it is there", "monitor", b.name,
		"file", transfer.Path(strings.ReplaceAll(e.key, "\x00", "/")), "error", e.damaged)
	e.gone = dropped
	return c.collect.mark(e)
}

// missing handles a file of the history that was not found.
func (c *comparison) missing(e known) error {
	if e.damaged != nil {
		return c.unreadable(e)
	}
	for _, dir := range c.unread {
		if e.key == dir || strings.HasPrefix(e.key, dir+"\x00") {
			return nil
		}
	}
	c.gone++
	switch {
	case e.gone == 0:
		e.gone = c.now.Unix()
	case c.now.Unix()-e.gone > int64(c.keeps.Seconds()):
		e.gone = dropped
	default:
		return nil
	}
	return c.collect.mark(e)
}
