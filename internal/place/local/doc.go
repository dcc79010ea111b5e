// Package local is the place for the files of an agent's host. It never leaves the agent's roots.
//
// Its parts are packages, here from the top down:
//
//	land    temporaries, and the commit of a group of files
//	intent  the records of a landing in the ledger
//	source  reading sources, and deleting or archiving them
//	walk    walks, scans and lists of names
//	disk    roots, directories, rights, and the calls of the operating system
//
// FS has one value of each. Local adapts them to the interfaces of package place, with the rights of a user.
package local
