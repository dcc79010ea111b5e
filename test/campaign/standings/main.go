// Command standings prints the sums of the recorded campaigns for the present code, and updates the table in
// docs/reliability.md. It ends with 1 where a count has not been reached.
package main

import (
	"fmt"
	"os"

	"ferry/test/campaign"
)

func main() { os.Exit(run()) }

func run() int {
	all, err := campaign.Standings(".")
	if err == nil {
		err = campaign.WriteTable(".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 0
	for _, s := range all {
		word := "reached"
		if !s.Reached() {
			word, code = "NOT REACHED", 1
		}
		fmt.Printf("%-12s %-22s %6d of %6d %s, %d found; ever %d, %d found\n", word, s.Last.Campaign, s.Count, s.Last.Full, s.Last.Unit, s.Findings, s.Ever, s.Found)
	}
	return code
}
