// Package session connects a command to a network. It has the flags for the connection and the log, the files that a
// command reads, signals and exit codes.
package session
