package audit

import (
	"encoding/hex"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// A tree is the right edge of a Merkle tree: the data to add leaves and to compute the root. For each 1 bit of its size
// it has the hash of the complete subtree of that many leaves. A copy is an independent tree.
type tree struct {
	size int64
	edge [63]tlog.Hash
}

// add adds a leaf and returns the hashes to be stored for it, from tlog.StoredHashIndex(0, old size) on.
func (t *tree) add(leaf tlog.Hash) []tlog.Hash {
	list, err := tlog.StoredHashesForRecordHash(t.size, leaf, t)
	if err != nil {
		panic("internal error: " + err.Error()) // ReadHashes below never fails
	}
	t.size++
	t.edge[len(list)-1] = list[len(list)-1]
	return list
}

func (t *tree) root() string {
	h := t.hash()
	return hex.EncodeToString(h[:])
}

func (t *tree) hash() tlog.Hash {
	h, err := tlog.TreeHash(t.size, t)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return h
}

// ReadHashes implements tlog.HashReader. tlog asks only for complete subtrees on the edge.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, _ := tlog.SplitStoredHashIndex(x)
		list[i] = t.edge[level]
	}
	return list, nil
}

// loadTree reads the edge of the tree at a size from its stored hashes.
func loadTree(size int64, hashes table) (tree, error) {
	t := tree{size: size}
	for v := uint64(size); v != 0; v &= v - 1 {
		level := bits.TrailingZeros64(v)
		x := tlog.StoredHashIndex(level, size>>level-1)
		if err := hashes.read(t.edge[level][:], x); err != nil {
			return tree{}, err
		}
	}
	return t, nil
}

func parseRoot(s string) (tlog.Hash, error) {
	var h tlog.Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("root %.80q is not 64 digits of hex", s)
	}
	copy(h[:], b)
	return h, nil
}
