package wire

import "sync"

// memoryStep is the step of the sizes that a Memory keeps apart, in bytes. memorySteps steps hold the largest message.
const (
	memoryStep  = 64 << 10
	memorySteps = 18
)

// A Memory lends the memory of chunk messages and takes it back, to save the garbage collector work. A nil Memory
// allocates new memory each time and keeps nothing.
//
// The present holder of a message owns its memory: the sender until it gives the message to a lane, the lane until the
// message is sent, the receiver until it has processed the message. To return memory is an optimisation, not a duty.
type Memory struct{ pools [memorySteps + 1]sync.Pool }

// Get lends n bytes with undefined content.
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

// Put takes back memory that is no longer in use. It leaves memory that did not come from Get to the garbage collector.
func (m *Memory) Put(b []byte) {
	step := cap(b) / memoryStep
	if m == nil || step < 1 || step > memorySteps || cap(b)%memoryStep != 0 {
		return
	}
	b = b[:0]
	m.pools[step].Put(&b)
}
