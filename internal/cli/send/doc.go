// Package send has the commands that move files: send and cat.
package send
