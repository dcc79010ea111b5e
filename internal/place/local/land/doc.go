// Package land lands files beneath the roots of an agent. Arriving data goes into temporaries beside its destination. A
// commit gives the items of a group their final names.
//
// Landing.Commit and Landing.Recover document the order of the steps and the state after a crash between any two of
// them.
package land
