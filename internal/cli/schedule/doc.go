// Package schedule has the commands for schedules, and the flags that make one of a request.
package schedule
