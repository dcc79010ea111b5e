// Package intent has the records of a landing that the ledger keeps: the intent of an item that is being committed, and
// the resume point in a temporary. Each begins with the number of its format.
package intent
