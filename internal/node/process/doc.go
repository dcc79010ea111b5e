// Package process has the parts of a process that runs agents or a queue manager: its memory, its open files, its
// console, and the wait for space on the disk.
package process
