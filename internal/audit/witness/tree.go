package witness

import (
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// Bounds of proofs.
const (
	maxHashes = 128 // of one proof: more than twice the height of the tallest tree
	MaxRun    = 8192
)

// A Run proves that a log has consecutive records of an agent at consecutive indexes.
type Run struct {
	First uint64      `json:"first"` // number of the first record
	Count int         `json:"count"`
	Index int64       `json:"index"` // of the first record in the log
	Proof []tlog.Hash `json:"proof"`
}

// split returns the size of the left part of a tree of n leaves, 2 or more: the greatest power of two below n.
func split(n int64) int64 {
	k := int64(1)
	for k<<1 < n {
		k <<= 1
	}
	return k
}

// ProveRun returns the hashes beside the leaves lo to hi-1 in a tree of a size, from its stored hashes.
func ProveRun(size, lo, hi int64, stored tlog.HashReader) ([]tlog.Hash, error) {
	var parts [][]int64 // for each hash the stored ones that it is computed from
	beside(0, size, lo, hi, func(from, to int64) { parts = append(parts, complete(from, to)) })
	var all []int64
	for _, p := range parts {
		all = append(all, p...)
	}
	hashes, err := stored.ReadHashes(all)
	if err != nil {
		return nil, err
	}
	proof := make([]tlog.Hash, len(parts))
	for i, p := range parts {
		proof[i] = fold(hashes[:len(p)])
		hashes = hashes[len(p):]
	}
	return proof, nil
}

// beside calls name for the greatest subtrees of the leaves from to to-1 without any of lo to hi-1, from left to right.
func beside(from, to, lo, hi int64, name func(from, to int64)) {
	switch {
	case hi <= from || to <= lo:
		name(from, to)
	case lo <= from && to <= hi:
	default:
		k := from + split(to-from)
		beside(from, k, lo, hi, name)
		beside(k, to, lo, hi, name)
	}
}

// complete returns the stored hashes of the complete subtrees of a subtree, from left to right.
func complete(from, to int64) (at []int64) {
	for from < to {
		level := 0
		for size := int64(2); from+size <= to && from%size == 0; size <<= 1 {
			level++
		}
		at = append(at, tlog.StoredHashIndex(level, from>>level))
		from += 1 << level
	}
	return at
}

// fold returns the root above complete subtrees that become smaller from left to right.
func fold(list []tlog.Hash) tlog.Hash {
	h := list[len(list)-1]
	for i := len(list) - 2; i >= 0; i-- {
		h = tlog.NodeHash(list[i], h)
	}
	return h
}

// CheckRun checks that the tree of a checkpoint has leaves from an index on. The error is of KindDigest.
func CheckRun(proof []tlog.Hash, c Checkpoint, index int64, leaves []tlog.Hash) error {
	bad := transfer.Errorf(transfer.KindDigest, "the log of %d records is not proved to have %d records from index %d on", c.Size, len(leaves), index)
	end := index + int64(len(leaves))
	if index < 0 || len(leaves) == 0 || len(leaves) > MaxRun || end > c.Size || len(proof) > maxHashes {
		return bad
	}
	root, rest, ok := rebuild(0, c.Size, index, leaves, proof)
	if !ok || len(rest) > 0 || root != c.Root {
		return bad
	}
	return nil
}

// rebuild returns the root of the leaves from to to-1. Some of these leaves are given, and the proof has the hashes of
// the others. rest is the unused part of the proof.
func rebuild(from, to, index int64, leaves, proof []tlog.Hash) (h tlog.Hash, rest []tlog.Hash, ok bool) {
	end := index + int64(len(leaves))
	switch {
	case end <= from || to <= index:
		if len(proof) == 0 {
			return h, nil, false
		}
		return proof[0], proof[1:], true
	case index <= from && to <= end:
		return RootOf(leaves[from-index : to-index]), proof, true
	}
	k := from + split(to-from)
	left, proof, ok := rebuild(from, k, index, leaves, proof)
	if !ok {
		return h, nil, false
	}
	right, proof, ok := rebuild(k, to, index, leaves, proof)
	return tlog.NodeHash(left, right), proof, ok
}

// RootOf returns the root of the tree of RFC 6962 over leaves.
func RootOf(leaves []tlog.Hash) tlog.Hash {
	switch n := int64(len(leaves)); n {
	case 0:
		h, _ := tlog.TreeHash(0, nil) // it reads no stored hash
		return h
	case 1:
		return leaves[0]
	default:
		k := split(n)
		return tlog.NodeHash(RootOf(leaves[:k]), RootOf(leaves[k:]))
	}
}

// PathOf returns the hashes from leaf i to the root of leaves: a tlog.RecordProof.
func PathOf(leaves []tlog.Hash, i int) tlog.RecordProof {
	n := int64(len(leaves))
	if n < 2 {
		return tlog.RecordProof{}
	}
	k := int(split(n))
	if i < k {
		return append(PathOf(leaves[:k], i), RootOf(leaves[k:]))
	}
	return append(PathOf(leaves[k:], i-k), RootOf(leaves[:k]))
}
