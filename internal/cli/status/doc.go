// Package status has the command `ferry status`: everything that needs a person, on one screen.
package status
