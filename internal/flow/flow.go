// Package flow is the arithmetic of flow control. It computes how far a sender may run ahead, when a receiver
// acknowledges and checkpoints, and how transfers share the memory of a receiving connection. It does no I/O and reads
// no clock.
//
// Credit is counted in plain source bytes. A chunk costs its plain length, whatever its size on the wire. The beginning
// of an item costs BeginCost, so that credit also limits a hundred thousand empty files. Within an epoch, credit is a
// limit on the running total. A sender may send as long as its total is at most the greatest limit that it has
// received.
package flow

import "ferry/internal/transfer"

// BeginCost is the credit, in bytes, for the beginning of an item.
const BeginCost = 4 << 10

// Limits of a group commit.
const (
	GroupItems = 256
)

// Settings of the direct lane if none is set explicitly. Larger chunks cause fewer wake-ups, and no queue manager has
// to hold them. The run-ahead is about the same.
const (
	directChunk  = 1 << 20
	directWindow = 3
	directFrame  = 4
)

// ForDirect adapts negotiated settings to the direct lane, with chunks of at most maxChunk bytes.
func ForDirect(s transfer.Settings, maxChunk int) transfer.Settings {
	if !s.Auto || s.ChunkSize >= directChunk || maxChunk < directChunk {
		return s
	}
	s.ChunkSize, s.WindowSize, s.FrameSize = directChunk, directWindow, directFrame
	return s
}

// RunAhead returns the bytes that a sender may send beyond those acknowledged: windowSize x frameSize chunks. The
// settings must be complete.
func RunAhead(s transfer.Settings) int64 {
	return int64(s.ChunkSize) * int64(s.WindowSize) * int64(s.FrameSize)
}

// Checkpoint returns the number of bytes between two checkpoints.
func Checkpoint(s transfer.Settings) int64 {
	return RunAhead(s) * int64(s.CheckpointInterval)
}

// AckEvery returns the number of bytes between two acknowledgements: the smaller of a window and half of the granted
// credit.
func AckEvery(s transfer.Settings, granted int64) int64 {
	return min(int64(s.ChunkSize)*int64(s.WindowSize), max(granted/2, 1))
}

// Negotiate settles the settings of a transfer. The values of the request are ceilings; unset ones come from the source
// agent. The chunk is at most maxChunk bytes, which the queue managers of both sides and the receiver's memory allow.
// If it shrinks, the window grows, so that the run-ahead stays about the same. Auto is set if chunk, window and frame
// are all unset.
func Negotiate(asked transfer.Settings, maxChunk int) transfer.Settings {
	s := asked.Or(transfer.DefaultSettings())
	s.Auto = asked.ChunkSize == 0 && asked.WindowSize == 0 && asked.FrameSize == 0
	if maxChunk > 0 && s.ChunkSize > maxChunk {
		c := max(maxChunk&^4095, transfer.MinChunk)
		s.WindowSize = min(s.WindowSize*s.ChunkSize/c, 10000)
		s.ChunkSize = c
	}
	return s
}
