// Package output prints the results of commands: tables for a screen, lines of JSON for scripts, and result codes.
package output
