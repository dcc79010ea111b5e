// Package member has the identities of this host in a network. It connects the OS user, enrols services, joins with a
// token and keeps identities renewed.
package member
