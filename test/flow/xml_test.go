//go:build linux

package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/flow/network"
)

// request is a transfer in the XML of MQ MFT, from a path at ALPHA to a directory at BETA. It is limited as paced is.
func request(attrs, source, to string) []byte {
	return fmt.Appendf(nil, "\ufeff<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<request version=\"6.00\" xmlns:f=\"urn:ferry\"%s><managedTransfer>"+
		`<originator><hostName>desk</hostName><userID>ann</userID></originator><sourceAgent agent="ALPHA" QMgr="QM"/><destinationAgent agent="BETA" QMgr="QM"/>`+
		`<transferSet f:limit="24M"><item><source recursive="true"><file>%s</file></source><destination type="directory" exist="error"><file>%s</file></destination></item></transferSet><job><name>%s</name></job></managedTransfer></request>`, attrs, source, to, to)
}

// TestXMLOnTheQueue puts XML on an agent's COMMAND queue while the agent is away, and kills processes. It is one
// transfer: a repeated delivery, or a message stored again under the same ID, is no second one.
func TestXMLOnTheQueue(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.Files("ALPHA", "many", 3, 300, 2000)
	n.File("ALPHA", "big", 2, 72<<20)

	w := n.WireOf("ALPHA") // no document passes a channel
	if !n.Channels() {     // with channels ALPHA keeps running
		n.Kill("ALPHA")
	}
	id := transfer.NewID(time.Now()).String()
	named := request(` f:id="`+id+`"`, "big", "named")
	subject := wire.CommandSubject("ALPHA", identity.Name{Role: identity.User, Name: strings.ToLower(client.Me().User)}.Token()) // the user that is enrolled
	for _, doc := range [][]byte{named, request("", "many", "plain"), named, []byte("<request><wish/></request>")} {
		if !w.Enqueue(subject, "", doc) {
			t.Fatal("the document is not stored")
		}
	}
	if !n.Channels() {
		n.Start("ALPHA")
	}
	n.Growing("BETA", 10<<20)
	n.Kill("ALPHA", network.QM)
	n.Start(network.QM, "ALPHA")
	w.Enqueue(subject, "", named)

	n.WaitState(id, "successful")
	n.Same("ALPHA", "big", "BETA", "named/big")
	once(t, n, id, 1)
	plain, refused := "", 0
	for _, p := range n.Transfers() {
		switch {
		case p.ID == id:
		case p.State == "failed":
			refused++
		case plain != "":
			t.Errorf("%s and %s are transfers of one document", plain, p.ID)
		default:
			plain = p.ID
		}
	}
	if plain == "" || refused != 1 {
		t.Fatalf("the document without an ID is transfer %q, and %d are refused", plain, refused)
	}
	n.WaitState(plain, "successful")
	n.Same("ALPHA", "many", "BETA", "plain")
	once(t, n, plain, 300)
}
