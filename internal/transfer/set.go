package transfer

// A set is the items of a transfer whose request says Together: all of them get their names,
// or none does. The destination keeps each under a temporary name until it has all.

// MaxSet is how many items a set may have, directories included. All are begun and undecided
// until the last one is there, and other transfers need places for such items, too.
const MaxSet = MaxUndecided / 4

// SetFailed is why no item of a set gets its name: the one at a path has failed.
func SetFailed(at Path, why *Error) *Error {
	if why.Kind == KindTogether {
		return why
	}
	return Errorf(KindTogether, "%s failed: %s", at, why.Text)
}

// OfSet is the error of an item that does not get its name for such a reason.
func OfSet(item Path, why *Error) *Error {
	return Errorf(KindTogether, "%s does not get its name, because %s", item, why.Text).
		WithHint("all files of the transfer arrive together or none does; put that right, then `ferry transfer retry`")
}

func noSetOfMessages() error {
	return Errorf(KindUsage, "--together is for files that get names, and messages of a queue have none").WithHint("leave out --together")
}

// checkTogether refuses what a set cannot be.
func (r *Request) checkTogether() error {
	if !r.Together {
		return nil
	}
	if r.Stored() {
		return Errorf(KindUsage, "--together and --delivery stored do not go together: from a store each file is committed as it is taken").
			WithHint("leave one of them out")
	}
	if r.Source.Stream() || r.Destination.Stream() {
		return Errorf(KindUsage, "--together is for files that get names, and a stream has none").WithHint("leave out --together")
	}
	if r.Dest.Place == Queues {
		return noSetOfMessages()
	}
	words := []string{r.IfExists}
	for n := range r.Items {
		words = append(words, r.Items[n].IfExists)
	}
	for _, w := range words {
		if w == IfExistsSkip || w == IfExistsUpdate {
			return Errorf(KindUsage, "--together and --if-exists %s do not go together: a file that is skipped would leave an old one among the new ones", w).
				WithHint("use --if-exists error, overwrite or rename")
		}
	}
	return nil
}
