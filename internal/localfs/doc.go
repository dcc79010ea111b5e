// Package localfs is where an agent touches the files of its host. It opens
// sources, walks directories, lands destinations, and never leaves the agent's
// roots: every directory is opened beneath a root and kept as a handle, and
// what is done in it names one component that is never followed as a link.
//
// The commit of a landed file is the heart of it. The order of the steps, and
// what a crash between any two of them leaves behind, is stated at
// Landing.Commit and Landing.Recover.
//
// The promises hold on Linux with a local file system. Limits names what is
// missing elsewhere.
package localfs
