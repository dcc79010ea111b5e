// Package monitor has the commands for monitors.
package monitor
