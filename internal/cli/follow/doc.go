// Package follow submits a request and shows the transfer until its end.
package follow
