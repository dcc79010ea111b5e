// Package sleep waits for a time, less if the waiter is woken.
package sleep
