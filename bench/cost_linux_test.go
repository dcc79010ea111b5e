package bench

import "testing"

func TestCostRuns(t *testing.T) {
	r := measured(t, newEnv(t), "cost")
	if len(r.Tables) != 2 || len(r.Notes) < 4 || figures(r.Tables[0]) < 8 || figures(r.Tables[1]) < 4*len(FerryRoles) {
		t.Errorf("%+v", r)
	}
}
