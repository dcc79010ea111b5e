// Package transfer has the commands that list, show, follow, cancel, resume and repeat transfers.
package transfer
