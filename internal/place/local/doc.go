// Package local reads and writes the files of an agent's host. It opens sources, walks directories and lands
// destinations. It never leaves the agent's roots: it opens every directory beneath a root and keeps it as a handle.
// Each operation in a directory names one component, and never follows it as a link.
//
// The central operation is the commit of a landed file. Landing.Commit and Landing.Recover document the order of the
// steps and the state after a crash between any two of them.
//
// The promises hold on Linux with a local file system. Limits names the missing primitives of other platforms.
package local
