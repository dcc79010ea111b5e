package disk

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Parallel calls do for 0 to n-1, at most wide calls at a time, and joins the errors.
func Parallel(n, wide int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}

	var wg sync.WaitGroup
	errs := make([]error, n)
	var next atomic.Int64
	for range min(n, wide) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}

	wg.Wait()
	return errors.Join(errs...)
}
