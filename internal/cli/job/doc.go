// Package job has the commands for jobs: requests with several destinations.
package job
