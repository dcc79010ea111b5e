// Package disk opens and changes the files of a host beneath the roots of an agent. It opens every directory beneath a
// root and keeps it as a handle. Each operation in a directory names one component, and never follows it as a link.
//
// A Disk is the operating system, with an implementation for each platform. Roots finds and opens directories beneath
// the roots of an agent, and checks rights to them. The package knows no transfer: walks, sources and landings stand
// above it.
//
// The promises hold on Linux with a local file system. Limits names the missing primitives of other platforms.
package disk
