package land

import (
	"bytes"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/sys/filetest"
	"ferry/internal/transfer"
)

// The names of shared helpers in these tests.
var (
	testDigest  = disktest.Digest
	sum         = disktest.Sum
	must        = filetest.Must
	wantKind    = disktest.WantKind
	tree        = filetest.Tree
	read        = filetest.Read
	exists      = filetest.Exists
	temporaries = disktest.Temporaries
	realTemp    = filetest.Dir
)

var testID = transfer.NewID(time.UnixMilli(1_800_000_000_000))

// lander returns a landing in the FS's first root.
func lander(f *FS, j place.Journal, change func(*place.LandConfig)) *Landing {
	cfg := place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(f.root), Into: true}}}
	if change != nil {
		change(&cfg)
	}
	return f.Land(cfg)
}

func body(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, seed + 2, 0, '\n'}, n/5+1)[:n]
}

// write makes a complete partial.
func write(l *Landing, item uint64, name string, content []byte) (place.Pending, error) {
	return disktest.Write[*Partial](l, item, name, content)
}
