// Package land lands files beneath the roots of an agent. Arriving data goes into temporaries beside its destination. A
// commit gives the items of a group their final names.
//
// Landing.Commit and Landing.Recover document the order of the steps and the state after a crash between any two of
// them.
//
// The landings of one transfer share parts, each with its own state:
//
//   - dirTree opens and makes directories, keeps them open, and syncs them
//   - temps names and removes temporaries
//   - sidecars writes and removes sidecars
//   - renames gives final names, and knows the items without one
//   - waits decides about obstacles
//   - watches observes the file systems that a group syncs at once
//
// A destination adds its rule for taken names and the rights of the principal. A Partial is an open temporary: it takes
// data and makes checkpoints. A commit is the state of one group.
package land
