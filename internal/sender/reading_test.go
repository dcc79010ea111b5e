package sender

import (
	"testing"

	"ferry/internal/place"
)

// A localFile is a file here, and a queueFile one that the queue manager sends.
type (
	localFile struct{ place.File }
	queueFile struct{ place.File }
)

func (queueFile) Carried() {}

// Shared lanes take a link that the queue manager uses, too.
type shared struct {
	Lanes
	is bool
}

func (l shared) Shared() bool { return l.is }

// A source is read over the link of its messages if the queue manager sends it from another host.
func TestReadingOverTheLink(t *testing.T) {
	for _, c := range []struct {
		file   place.File
		shared bool
		want   bool
	}{{queueFile{}, true, true}, {queueFile{}, false, false}, {localFile{}, true, false}} {
		p := &pump{parts: parts{cfg: &Config{Lanes: shared{is: c.shared}}}}
		if got := p.readsLink(&reading{src: c.file}); got != c.want {
			t.Errorf("a %T, with the queue manager over the link: %t; the reading takes the link: %t", c.file, c.shared, got)
		}
	}
}
