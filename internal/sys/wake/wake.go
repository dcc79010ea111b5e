// Package wake wakes goroutines that wait for a channel.
package wake

// Up wakes the goroutine that receives from a channel with room for one. One that is not waiting yet is woken later,
// once for all calls until then.
func Up(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
