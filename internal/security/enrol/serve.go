package enrol

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
)

// Limits of the listener, which strangers reach.
const (
	maxRequest = 16 << 10 // bytes of a request's body
	maxAnswer  = 1 << 20  // with the claims that a queue manager gets, which have the revocations
	maxHeader  = 4 << 10
	perAddress = 4  // connections at once
	allAtOnce  = 64 // from all addresses
	patience   = 5 * time.Second
)

const enrolPath = "/v1/enrol"

// A request is the question of a joiner. It asks for the identity of Role and Name; without Name, for any name of the
// role.
type request struct {
	Secret string        `json:"secret"`
	Role   identity.Role `json:"role"`
	Name   string        `json:"name,omitempty"`
	CSR    []byte        `json:"csr"`
	Nkey   string        `json:"nkey"`

	SameRole bool `json:"same_role,omitempty"` // as in authority.IdentityRequest
}

// An answer is the authority's answer to a joiner: the grant, or the reason for a refusal.
type answer struct {
	Chain []byte         `json:"chain,omitempty"`
	Roots []byte         `json:"roots,omitempty"`
	JWTs  *identity.JWTs `json:"jwts,omitempty"`
	Trust string         `json:"trust,omitempty"`
	// Claims are for a queue manager.
	Claims []byte          `json:"claims,omitempty"`
	Error  *transfer.Error `json:"error,omitempty"`
}

// An Enroller issues an identity for a token's secret: an authority.Authority.
type Enroller interface {
	Enrol(secret string, as identity.Name, w authority.IdentityRequest) (identity.Grant, error)
}

// Serve answers joiners on l until ctx ends, and closes it. self is the authority's own
// identity.
func Serve(ctx context.Context, l net.Listener, self *identity.Identity, e Enroller, log *slog.Logger) error {
	s := &server{enroller: e, log: quiet.New(log, time.Now)}
	hs := &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // faults of strangers are not logged
	}
	stop := context.AfterFunc(ctx, func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if hs.Shutdown(short) != nil {
			hs.Close()
		}
	})
	defer stop()
	err := hs.Serve(tls.NewListener(&limitedListener{Listener: l, by: map[string]int{}}, serverTLS(self)))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// serverTLS shows the whole chain, with the roots, the one that signs last: a joiner has only the hash of one.
func serverTLS(self *identity.Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own := *self.Certificate()
			roots := self.Roots()
			own.Certificate = slices.Clone(own.Certificate)
			for _, c := range append(slices.Clone(roots.Old), roots.Root) {
				own.Certificate = append(own.Certificate, c.Raw)
			}
			return &own, nil
		},
		SessionTicketsDisabled: true,
	}
}

type server struct {
	enroller Enroller
	log      *quiet.Log
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	ans, status := s.answer(w, r)
	data, err := json.Marshal(ans)
	if err != nil {
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
	w.Write(data) // a joiner that has gone asks again
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) (answer, int) {
	refuse := func(status int, err error) (answer, int) {
		s.log.Warn("enrolment refused", "from", r.RemoteAddr, "error", err)
		return answer{Error: transfer.AsError(err)}, status
	}
	if r.URL.Path != enrolPath || r.Method != http.MethodPost || r.Header.Get("Content-Encoding") != "" {
		return refuse(http.StatusNotFound, transfer.Errorf(transfer.KindUsage, "there is nothing but POST %s here", enrolPath))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return refuse(http.StatusBadRequest, transfer.Errorf(transfer.KindTooLarge, "the request cannot be read: %w", err))
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return refuse(http.StatusBadRequest, transfer.Errorf(transfer.KindMalformed, "the request is malformed")) // the cause may repeat the secret
	}
	g, err := s.enroller.Enrol(q.Secret, identity.Name{Role: q.Role, Name: q.Name}, authority.IdentityRequest{CSR: q.CSR, Nkey: q.Nkey, SameRole: q.SameRole})
	if err != nil {
		return refuse(http.StatusForbidden, err)
	}
	return *grantAnswer(g), http.StatusOK
}

// limitedListener is a listener with few connections at once, from an address and from all. Others are
// closed as they come.
type limitedListener struct {
	net.Listener
	mu  sync.Mutex
	by  map[string]int
	all int
}

func (f *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		f.mu.Lock()
		ok := f.all < allAtOnce && f.by[host] < perAddress
		if ok {
			f.all++
			f.by[host]++
		}
		f.mu.Unlock()
		if ok {
			return &countedConn{Conn: c, close: sync.OnceFunc(func() { f.gone(host) })}, nil
		}
		c.Close()
	}
}

func (f *limitedListener) gone(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.by[host]--; f.by[host] == 0 {
		delete(f.by, host)
	}
}

type countedConn struct {
	net.Conn
	close func()
}

func (c *countedConn) Close() error {
	c.close()
	return c.Conn.Close()
}
