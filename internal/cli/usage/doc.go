// Package usage has the help of commands, checks their arguments, and suggests a command or flag for a mistyped one.
package usage
