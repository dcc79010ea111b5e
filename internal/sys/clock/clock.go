// Package clock is the time that Ferry runs on. Everything that waits or looks
// at the time of day is handed a Clock, so that a test can hold it still, push
// it, or make it jump.
package clock

import "time"

// A Clock tells the time and makes timers.
type Clock interface {
	// Now is the time of day, with a monotonic reading where there is one.
	Now() time.Time
	// NewTimer fires once, d from now.
	NewTimer(d time.Duration) Timer
}

// A Timer is a time.Timer with its channel behind the method C.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration) bool
	Stop() bool
}

// System is the clock of the host. Inside a testing/synctest bubble it is the
// bubble's.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                 { return time.Now() }
func (system) NewTimer(d time.Duration) Timer { return timer{time.NewTimer(d)} }

type timer struct{ *time.Timer }

func (t timer) C() <-chan time.Time { return t.Timer.C }
