package wire

import "sync"

// memoryStep is the grain of the sizes that a Memory keeps apart; memorySteps
// of them hold the largest message.
const (
	memoryStep  = 64 << 10
	memorySteps = 18
)

// A Memory lends the memory of chunk messages and takes it back, so that a
// gigabyte does not go through the garbage collector. A nil one lends new
// memory each time and keeps nothing.
//
// Who has a message owns its memory: the sender until it gives the message to a
// lane, the lane until it is out, the receiver until it has taken the message
// in. Giving it back is a courtesy, not a duty.
type Memory struct{ pools [memorySteps + 1]sync.Pool }

// Get lends n bytes; what they contain is anybody's guess.
func (m *Memory) Get(n int) []byte {
	step := (n + memoryStep - 1) / memoryStep
	if m == nil || n <= memoryStep/2 || step > memorySteps {
		return make([]byte, n)
	}
	if p, ok := m.pools[step].Get().(*[]byte); ok {
		return (*p)[:n]
	}
	return make([]byte, n, step*memoryStep)
}

// Put takes memory back that nobody will look at any more. What did not come
// from Get is left to the garbage collector.
func (m *Memory) Put(b []byte) {
	step := cap(b) / memoryStep
	if m == nil || step < 1 || step > memorySteps || cap(b)%memoryStep != 0 {
		return
	}
	b = b[:0]
	m.pools[step].Put(&b)
}
