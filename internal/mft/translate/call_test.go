package translate

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/managedcall"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A managed call of MQ MFT is a call of the same program.
func TestCall(t *testing.T) {
	const doc = `<request><managedCall><originator><hostName>h</hostName><userID>u</userID></originator><agent agent="beta" QMgr="Q"/><transferSet><metaDataSet><metaData key="k">v</metaData></metaDataSet>` +
		`<call><command name="load.sh" type="executable" successRC="0|&gt;7" retryCount="2" retryWait="30"><argument>a b</argument></command></call></transferSet><job><name>n</name></job></managedCall></request>`
	d, err := mftxml.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	id := transfer.NewID(time.Now())
	body, err := Command(d, id, "BETA")
	if kind := Kind(d); err != nil || kind != managedcall.CommandRun {
		t.Fatalf("%s, %v", kind, err)
	}
	want := &managedcall.Put{ID: id, Agent: "BETA", Job: "n", Meta: map[string]string{"k": "v"},
		Program: transfer.Program{Name: "load.sh", Args: []string{"a b"}, Retries: 2, Pause: transfer.Duration(30 * time.Second), Success: "0,8-2147483647"}}
	if got := body.(*managedcall.Put); string(wire.Marshal(got)) != string(wire.Marshal(want)) {
		t.Errorf("it asks for %s", wire.Marshal(got))
	}
	for was, is := range map[string]string{`type="executable"`: `type="jcl"`, `name="load.sh"`: `name="/bin/../sh"`, `retryCount="2"`: `retryCount="2000"`} {
		d, err := mftxml.Parse([]byte(strings.Replace(doc, was, is, 1)))
		if err == nil {
			_, err = Call(d, id)
		}
		if err == nil {
			t.Errorf("%s is taken", is)
		}
	}
}
