// Package template has the commands for templates.
package template
