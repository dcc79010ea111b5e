// Package content has the commands for code pages and data sets.
package content
