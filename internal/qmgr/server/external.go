package server

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/nats-io/jwt/v2"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// External is a server of NATS that is not Ferry's, as the queue manager of a network.
type External struct {
	Name     string // of the queue manager; its identity is the server's
	Listen   string // HOST:PORT
	MaxStore int64  // bytes of its store; 0: 8 GiB
	Identity string // directory of its identity, beneath that of the configuration
	Claims   roles.Claims
	Cluster  *cluster.Cluster // its cluster; nil: none
	// Pins are the hashes of the keys of the other members' certificates (identity.KeyHash), and its own. At routes, a
	// server of NATS checks only that a certificate is of the network. It does not check the name in it.
	Pins []string
}

const (
	fileConfig   = "nats-server.conf"
	fileOperator = "operator.jwt"
	dirResolver  = "jwt"
)

// externalConfig has the limits of the embedded queue manager.
var externalConfig = template.Must(template.New("").Parse(`# The queue manager {{.Name}} of the network {{.Network}}. Start nats-server in this directory:
#   nats-server -c {{.File}}
server_name: {{.Quoted}}
listen: {{.Listen}}

# Identities of the network, as its authority has signed them. The authority writes revocations to the
# resolver's directory, through the system account.
operator: {{.Operator}}
system_account: {{.System}}
resolver: { type: full, dir: {{.Resolver}}, allow_delete: false, interval: "2m" }

# TLS with a certificate of the network comes before the first byte.
tls: {
  cert_file: "{{.Identity}}/cert.pem"
  key_file: "{{.Identity}}/key.pem"
  ca_file: "{{.Identity}}/ca.pem"
  verify: true
  handshake_first: true
  min_version: "1.3"
  timeout: 10
}
authorization: { timeout: 10 }

max_payload: {{.MaxPayload}}
max_pending: {{.MaxPending}}
ping_interval: "20s"
ping_max: 3
write_deadline: "30s"
write_timeout: "retry"
jetstream: {
  store_dir: store
  max_memory_store: {{.MaxMemory}}
  max_file_store: {{.MaxStore}}
  sync_interval: always
  limits: { default_max_consumers: {{.MaxConsumers}} }
}
{{- with .Cluster}}

# The other members of the cluster, by routes with TLS. A member must have one of the pinned keys. Without
# them each certificate of the network would be accepted, also that of an agent. For the same reason
# the names of hosts are not compared ("insecure").
cluster: {
  name: {{printf "%q" .Name}}
  listen: {{printf "%q" .Listen}}
  routes: [{{range .Routes}}
    {{printf "%q" .}}{{end}}
  ]
  no_advertise: true
  pool_size: {{.Pool}}
  compression: off
  ping_interval: "2s"
  ping_max: 2
  write_deadline: "10s"
  tls: {
    cert_file: "{{$.Identity}}/cert.pem"
    key_file: "{{$.Identity}}/key.pem"
    ca_file: "{{$.Identity}}/ca.pem"
    verify: true
    insecure: true
    min_version: "1.3"
    timeout: 10
    pinned_certs: [{{range $.Pins}}
      "{{.}}"{{end}}
    ]
  }
}
{{- end}}
`))

// Check reports an error for a configuration that no server can have.
func (e External) Check() error {
	_, port, err := net.SplitHostPort(e.Listen)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
		return transfer.Errorf(transfer.KindUsage, "listen address %q is malformed; write it as HOST:PORT", e.Listen)
	}
	if e.Cluster != nil {
		return e.Cluster.Check(e.Name)
	}
	return nil
}

// routes returns the cluster's routes in the form of the configuration; nil: there is no cluster.
func (e External) routes() (map[string]any, error) {
	if e.Cluster == nil {
		return nil, nil
	}
	if len(e.Pins) == 0 {
		return nil, transfer.Errorf(transfer.KindInternal, "no key is pinned for the routes of %s", e.Name)
	}
	var all []string
	for _, r := range e.Cluster.Routes {
		u, err := cluster.RouteURL(r)
		if err != nil {
			return nil, err
		}
		all = append(all, u.String())
	}
	return map[string]any{"Name": e.Cluster.Name, "Listen": e.Cluster.Listen, "Routes": all, "Pool": cluster.RoutePool}, nil
}

// Write writes the configuration of an external server to a directory. A second Write keeps the server's claims of the
// network if they are newer.
func (e External) Write(dir *keyfile.Dir) error {
	r, err := claims.Read(e.Claims)
	if err != nil {
		return err
	}
	if err := e.Check(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(e.Listen)
	if err != nil {
		return err
	}
	resolver, err := keyfile.Make(filepath.Join(dir.Path(), dirResolver))
	if err != nil {
		return err
	}
	for _, a := range []struct {
		claims *jwt.AccountClaims
		jwt    string
	}{{r.Account, e.Claims.Account}, {r.Data, e.Claims.Data}, {r.System, e.Claims.System}} {
		if err := keepNewest(resolver, a.claims, a.jwt); err != nil {
			return err
		}
	}
	if err := keepOperator(dir, r.Operator, e.Claims.Operator); err != nil {
		return err
	}
	routes, err := e.routes()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := externalConfig.Execute(&b, map[string]any{"Name": e.Name, "Network": r.Operator.Name, "File": fileConfig, "Quoted": strconv.Quote(e.Name),
		"Listen": strconv.Quote(net.JoinHostPort(cmp.Or(host, "0.0.0.0"), port)), "Operator": fileOperator, "System": r.System.Subject, "Resolver": dirResolver, "Identity": e.Identity,
		"MaxPayload": streams.MaxPayload, "MaxPending": streams.MaxPending, "MaxMemory": streams.MaxMemory, "MaxStore": cmp.Or(e.MaxStore, defaultMaxStore), "MaxConsumers": streams.MaxConsumers, "Cluster": routes, "Pins": e.Pins}); err != nil {
		return err
	}
	return dir.Write(fileConfig, b.Bytes())
}

// keepOperator writes the operator's JWT, unless the directory has one with the same contents. A running server does
// not take another one, nor any change with it.
func keepOperator(dir *keyfile.Dir, claims *jwt.OperatorClaims, text string) error {
	was, err := dir.Read(fileOperator)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old, derr := jwt.DecodeOperatorClaims(strings.TrimSpace(string(was))); err == nil && derr == nil && old.Subject == claims.Subject && old.SystemAccount == claims.SystemAccount {
		return nil
	}
	return dir.Write(fileOperator, []byte(text+"\n"))
}

// keepNewest keeps an account's JWT in a resolver's directory, unless there is a newer one.
func keepNewest(resolver *keyfile.Dir, account *jwt.AccountClaims, text string) error {
	file := account.Subject + ".jwt"
	was, err := os.ReadFile(filepath.Join(resolver.Path(), file)) // it is no secret, and has the mode that the server gives it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old, derr := jwt.DecodeAccountClaims(string(was)); err == nil && derr == nil && old.Issuer == account.Issuer && claims.Number(old) > claims.Number(account) {
		return nil
	}
	return resolver.Write(file, []byte(text))
}

// SameClaims reports whether two claims admit the same identities. An update without a change would restart JetStream
// for the account. For a moment the account would not answer.
func SameClaims(a, b roles.Claims) bool {
	x, err := claims.Read(a)
	y, err2 := claims.Read(b)
	return err == nil && err2 == nil && claims.Same(x.Account, y.Account) && claims.Same(x.Data, y.Data)
}
