// Package source reads the sources beneath the roots of an agent, and deletes or archives those that have arrived. A
// source is opened once, and its identity is compared before it is called unchanged, and before and after it is put
// aside. So a file that takes its name meanwhile is safe.
package source
