package claims

import (
	"errors"
	"maps"
	"reflect"
	"strconv"

	"github.com/nats-io/jwt/v2"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// Claims are the parsed contents of the signed claims.
type Claims struct {
	Operator              *jwt.OperatorClaims
	Account, Data, System *jwt.AccountClaims
}

func Read(c roles.Claims) (r Claims, err error) {
	var all [4]error
	r.Operator, all[0] = jwt.DecodeOperatorClaims(c.Operator)
	r.Account, all[1] = jwt.DecodeAccountClaims(c.Account)
	r.Data, all[2] = jwt.DecodeAccountClaims(c.Data)
	r.System, all[3] = jwt.DecodeAccountClaims(c.System)
	if err := errors.Join(all[:]...); err != nil {
		return r, transfer.Errorf(transfer.KindMalformed, "the claims that the authority has signed for queue managers cannot be read: %w", err)
	}
	return r, nil
}

// An Admission holds the claims of a queue manager's two accounts, parsed and as they were signed.
type Admission struct {
	Account, Data             *jwt.AccountClaims
	SignedAccount, SignedData string
}

// Number returns the number of claims (roles.Keys.Claims): the larger one is newer.
func Number(account *jwt.AccountClaims) uint64 {
	n, err := strconv.ParseUint(account.Description, 10, 64)
	if err != nil {
		return 0 // before there were numbers
	}
	return n
}

// Same reports whether two claims of an account admit the same identities.
func Same(a, b *jwt.AccountClaims) bool {
	return a.Subject == b.Subject && maps.Equal(a.Revocations, b.Revocations) && maps.EqualFunc(a.SigningKeys, b.SigningKeys, func(x, y jwt.Scope) bool { return reflect.DeepEqual(x, y) })
}
