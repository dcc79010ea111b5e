package cluster

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/listen"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Cluster names the cluster that an embedded queue manager is a member of. Its members are connected by routes, each
// with each other. They keep three replicas of every queue once there are three of them. A queue manager that has ever
// been a member of a cluster is never started as anything else: its directory holds its part of the cluster's common
// store.
type Cluster struct {
	Name   string
	Listen string   // HOST:PORT for routes, with a port
	Routes []string // HOST:PORT of the other members, or nats://HOST:PORT; one at least

	Leaderless time.Duration // in place of leaderlessFor, for tests
}

// Limits of routes.
const (
	// routePing is the interval of a member's questions for signs of life of another one. Two questions without an
	// answer end the route: a member behind a broken path is noticed within three times this.
	routePing = 2 * time.Second
	// routeDeadline is the longest time without progress on a route. A slow link that makes progress has the time
	// (WriteTimeout).
	routeDeadline = 10 * time.Second
	// RoutePool is the number of connections over which two members spread their accounts. One account is on one of
	// them, so that its messages stay in order; the system account has one of its own.
	RoutePool = 3

	routeTLSTimeout = 10 * time.Second
)

// Check reports an error for a configuration that no cluster can have; qm is the name of the queue manager.
func (c *Cluster) Check(qm string) error {
	if c.Name == "" || strings.ContainsAny(c.Name, " \t\r\n.*>\"") {
		return transfer.Errorf(transfer.KindUsage, "the cluster name %q is not valid: it is empty or has one of . * > \" and spaces", c.Name)
	}
	if len(c.Routes) == 0 {
		return transfer.Errorf(transfer.KindUsage, "queue manager %s of cluster %s has no route to another member", qm, c.Name).
			WithHint("give --route HOST:PORT, the --cluster-listen of another member, for each of them")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return transfer.Errorf(transfer.KindUsage, "--cluster-listen %q is no HOST:PORT", c.Listen)
	}
	for _, r := range c.Routes {
		if _, err := RouteURL(r); err != nil {
			return err
		}
	}
	return nil
}

// RouteURL reads a route.
func RouteURL(text string) (*url.URL, error) {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		rest = text
	}
	u, err := url.Parse("nats-route://" + rest)
	if err != nil || u.Hostname() == "" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, transfer.Errorf(transfer.KindUsage, "the route %.200q is malformed; write it as HOST:PORT, the --cluster-listen of another member", text)
	}
	return u, nil
}

// Apply puts a cluster in the library's terms. name and i are those of the queue manager; admits returns an error for the
// name of one that is no member.
func (c *Cluster) Apply(name string, i *identity.Identity, admits func(name string) error, opts *server.Options) error {
	if err := c.Check(name); err != nil {
		return err
	}
	host, port, err := listen.Split("--cluster-listen", c.Listen)
	if err != nil {
		return err
	}
	if port == server.RANDOM_PORT {
		return transfer.Errorf(transfer.KindUsage, "--cluster-listen %s has no port: the other members could not find this one", c.Listen)
	}
	for _, text := range c.Routes {
		u, err := RouteURL(text)
		if err != nil {
			return err
		}
		opts.Routes = append(opts.Routes, u)
	}
	// When the library begins a cluster, it takes the number of routes as the number of members. So the routes include
	// the address of this member, which the library does not dial.
	self := host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		self = "127.0.0.1"
	}
	u, err := RouteURL(net.JoinHostPort(self, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	opts.Routes = append(opts.Routes, u)

	opts.Cluster = server.ClusterOpts{
		Name: c.Name, Host: host, Port: port,
		// Clients are configured with the addresses of the members, or do not need them. A member would advertise the
		// library's address of another member, and no gate guards that address.
		NoAdvertise:  true,
		PoolSize:     RoutePool,
		Compression:  server.CompressionOpts{Mode: server.CompressionOff}, // data worth compressing is compressed end to end
		PingInterval: routePing, MaxPingsOut: 2,
		WriteDeadline: routeDeadline, WriteTimeout: server.WriteTimeoutPolicyRetry,
		Permissions: &server.RoutePermissions{Import: localSubjects(), Export: localSubjects()},
	}
	if i != nil {
		managers := identity.OneOf(i.Name().Network, identity.Manager)
		opts.Cluster.TLSConfig = i.Equal(func(n identity.Name) error {
			if err := managers(n); err != nil {
				return err
			}
			return admits(n.Name)
		})
		opts.Cluster.TLSTimeout = routeTLSTimeout.Seconds()
	}
	return nil
}

// localSubjects keeps two kinds of requests from the other members: those to the queue manager of the asker's connection, and
// those to the services beside it. All members listen on those subjects, and each would do the errand and answer. A
// queue group is no remedy: the library chooses among the group's subscribers of all members of a cluster.
func localSubjects() *server.SubjectPermission {
	return &server.SubjectPermission{Deny: []string{wire.AllAsks(wire.Manager), wire.AllAsks(wire.Up)}}
}

// OpenRoutes has the library listen for routes and dial them, where it has no listener for clients because a gate
// stands before it (Guard).
//
// The library starts its routes only when its listener for clients is ready. With DontListen that never happens. A
// listener on loopback instead would be a second entrance: a process on this host with a JWT would bypass the gate, and
// with it the check of replies. So there is none.
//
// The library's own goroutine blocks in StartRouting. A second call with a closed channel does the work. It also counts
// as the end of the first call when the server waits for its goroutines. The first call stays blocked until the process
// ends.
func OpenRoutes(ns *server.Server, opts *server.Options) {
	if opts.Cluster.Port == 0 || !opts.DontListen {
		return
	}
	ready := make(chan struct{})
	close(ready)
	ns.StartRouting(ready)
}
