package transfer

import "strings"

// A word is the value of an option with a few possible words.
type word struct {
	name, value string
	built, all  []string
}

func checkWords(words []word) error {
	for _, w := range words {
		if err := checkWord(w.name, w.value, w.built, w.all); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(name, value string, built, later []string) error {
	if value == "" {
		return nil
	}

	for _, v := range built {
		if v == value {
			return nil
		}
	}

	for _, v := range later {
		if v == value {
			return Errorf(KindNotBuilt, "--%s %s is not built yet; use %s", name, value, strings.Join(built, " or "))
		}
	}
	return Errorf(KindUsage, "--%s %q is unknown; it is one of %s", name, value, strings.Join(append(built, later...), ", "))
}
