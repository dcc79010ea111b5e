package protocol_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"ferry/test/campaign"
)

// textWork decides by a generator of its own, so that a seed means what it means
// without conversion in everything else.
func textWork(seed uint64) work { return work{texts: rand.New(rand.NewPCG(seed, 13))} }

// textProduct is what such a world is made of besides.
var textProduct = append([]string{"internal/codepage", "internal/record", "internal/conversion"}, product...)

// TestCampaignText is the simulation with transfers in text mode and of records.
func TestCampaignText(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "text",
		What: "what the simulation does, to transfers that are converted: code pages, line ends, records of every format, files that cannot be converted among them",
		Unit: "seeds", Full: 20_000, Short: 100, Packages: textProduct}, func(t *testing.T, c *campaign.C) {
		each(simulateText)(t, c)
		t.Log(&toll)
	})
}

// TestTextSeeds is the beginning of that campaign, in every test run.
func TestTextSeeds(t *testing.T) { spread(t, 1, 80, simulateText) }

// TestAFailedConversionKeepsItsSafePoint: in this seed the destination crashes when an
// item cannot be converted and that is not on record yet. Its temporary was gone
// then, which a safe point spoke of. What runs first differs from one run to the
// next, and every second one had it.
func TestAFailedConversionKeepsItsSafePoint(t *testing.T) {
	for range 12 {
		spread(t, 8796, 1, simulateText)
	}
}

func simulateText(t *testing.T, seed uint64, r *rand.Rand) { simulateWork(t, r, textWork(seed)) }

// TestPassages: without any fault, every kind of conversion gives what it must.
func TestPassages(t *testing.T) {
	spread(t, 1, 150, func(t *testing.T, seed uint64, r *rand.Rand) {
		bubble(t, setup{memory: true}, func(w *world) {
			s := &script{r: r}
			w.submitRandom(s, textWork(seed))
			w.finish(5 * time.Minute)
		})
	})
}
