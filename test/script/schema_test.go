package script_test

import (
	"encoding/json"
	"os"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is docs/output.schema.json, with no field allowed that it does not name: whoever
// reads JSON must bear new fields, and the schema must have them.
var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	b, err := os.ReadFile("../../docs/output.schema.json")
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	for _, def := range doc["$defs"].(map[string]any) {
		def.(map[string]any)["additionalProperties"] = false
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("output.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("output.json")
})

// inSchema fails a script with an output line that the schema does not have.
func inSchema(ts *testscript.TestScript, lines []string) {
	s, err := schema()
	if err != nil {
		ts.Fatalf("docs/output.schema.json: %v", err)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "{") {
			continue
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(l))
		if err != nil {
			ts.Fatalf("%s is not JSON: %v", l, err)
		}
		if err := s.Validate(v); err != nil {
			ts.Fatalf("%s is not as docs/output.schema.json says", l)
		}
	}
}
