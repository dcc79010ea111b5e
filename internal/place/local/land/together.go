package land

import "ferry/internal/transfer"

// One sync of a file system waits for all unwritten data on it, of any program. It is worth that if it replaces many
// syncs, and if the files themselves are a small part of the data.
const (
	groupSyncFrom = 16      // files; Config.GroupSync
	groupSyncSize = 1 << 20 // bytes of a file that counts as small
)

// syncTogether makes the group's small files durable by one sync of their file system, if there are enough of them, and
// closes them. It returns the files that must be synced one by one. All data of the files has been written and given to
// the disk before, so that no failure goes unnoticed.
//
// The directories are synced after it. On a file system with an aborted journal that is an error, whereas on some
// kernels the sync of the whole file system succeeds.
func (c *commit) syncTogether(files []*work) (alone []*work, err error) {
	var watches []*watch
	under := map[*watch][]*work{}
	for _, w := range files {
		at := w.part.watch
		if at == nil || w.in.Size > groupSyncSize {
			alone = append(alone, w)
			continue
		}
		if under[at] == nil {
			watches = append(watches, at)
		}
		under[at] = append(under[at], w)
	}

	for _, at := range watches {
		group := under[at]
		done := false
		if len(group) >= c.l.fs.cfg.GroupSync {
			if done, err = at.sync(c.l.disk); err != nil {
				return nil, failGroupPermanently(group, err)
			}
		}
		if !done {
			alone = append(alone, group...)
			continue
		}
		for _, w := range group {
			if err := w.part.Close(); err != nil {
				return nil, err
			}
		}
	}
	return alone, nil
}

// failGroupPermanently fails a group permanently after a failed sync of its file system: it is unknown which data was written.
func failGroupPermanently(group []*work, why error) error {
	err := syncFailed(transfer.Path(group[0].dir.Path()), why)
	for _, w := range group {
		w.part.failPermanently(err)
	}
	return err
}
