package disk

import "ferry/internal/sys/filetest"

// The names of shared helpers in these tests.
var must, tree = filetest.Must, filetest.Tree
