package transfer

// A set consists of the items of a transfer with Together in its request. All items get their final names, or none
// does. The destination keeps each under a temporary name until it has all.

// MaxSet is the most items of a set, including directories. All are begun and undecided until the last one has arrived,
// and other transfers need room for such items, too.
const MaxSet = MaxUndecided / 4

// SetFailed returns the reason why no item of a set gets its name: the item at a path has failed.
func SetFailed(at Path, why *Error) *Error {
	if why.Kind == KindTogether {
		return why
	}
	return Errorf(KindTogether, "%s failed: %s", at, why.Text)
}

// OfSet returns the error of an item that fails for a reason of SetFailed.
func OfSet(item Path, why *Error) *Error {
	return Errorf(KindTogether, "%s does not get its name, because %s", item, why.Text).
		WithHint("all files of the transfer arrive together or none does; put that right, then `ferry transfer retry`")
}

func noSetOfMessages() error {
	return Errorf(KindUsage, "--together is for files that get names, and messages of a queue have none").WithHint("leave out --together")
}

// checkTogether refuses options that a set does not support.
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
