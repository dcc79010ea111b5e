// Package listen reads the addresses of the listeners of a queue manager.
package listen
