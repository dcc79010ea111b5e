// Package flow is the arithmetic of flow control: how far a sender may run
// ahead, when a receiver acknowledges and checkpoints, and how the memory of a
// receiving connection is shared among its transfers. It does no I/O and knows
// no time.
//
// Credit is counted in plain source bytes. A chunk costs its length, whatever
// it weighs on the wire; the beginning of an item costs BeginCost, so that a
// hundred thousand empty files are held back like anything else. Within an
// epoch credit is a limit on the running total: a sender may send as long as
// its total stays at or under the greatest limit that it has heard of.
package flow

import "ferry/internal/transfer"

// BeginCost is what the beginning of an item costs, in bytes.
const BeginCost = 4 << 10

// Limits of a group commit.
const (
	GroupItems = 256
	GroupBytes = 32 << 20
)

// What the direct lane begins with where nobody has set anything: larger chunks
// cost fewer wake-ups, and there is no queue manager that has to hold them. The
// run-ahead is about the same.
const (
	directChunk  = 1 << 20
	directWindow = 3
	directFrame  = 4
)

// ForDirect adapts negotiated settings to the direct lane, with chunks of at
// most maxChunk.
func ForDirect(s transfer.Settings, maxChunk int) transfer.Settings {
	if !s.Auto || s.ChunkSize >= directChunk || maxChunk < directChunk {
		return s
	}
	s.ChunkSize, s.WindowSize, s.FrameSize = directChunk, directWindow, directFrame
	return s
}

// RunAhead is how many bytes a sender may be ahead of what was acknowledged:
// windowSize x frameSize chunks. The settings must be complete.
func RunAhead(s transfer.Settings) int64 {
	return int64(s.ChunkSize) * int64(s.WindowSize) * int64(s.FrameSize)
}

// Checkpoint is how many bytes lie between two checkpoints.
func Checkpoint(s transfer.Settings) int64 {
	return RunAhead(s) * int64(s.CheckpointInterval)
}

// AckEvery is after how many bytes the receiver acknowledges: the smaller of a
// window and half of what it has granted.
func AckEvery(s transfer.Settings, granted int64) int64 {
	return min(int64(s.ChunkSize)*int64(s.WindowSize), max(granted/2, 1))
}

// Negotiate settles the settings of a transfer. What the request asks for are
// ceilings; unset ones are the source agent's. The chunk is no larger than
// maxChunk, which is what the queue managers of both sides and the receiver's
// memory allow; where it shrinks, the window grows so that the run-ahead stays
// about as asked. Where nobody has set chunk, window or frame, they are Auto.
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
