package space

import (
	"os"
	"path/filepath"
	"testing"
)

// A reserve has its size in real bytes, is made once, and is an empty file when it is given up.
func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserve")
	if GiveUp(path) {
		t.Error("a reserve that is not there is given up")
	}
	for range 2 {
		if err := Reserve(path, 3<<19); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() != 3<<19 {
		t.Fatalf("the reserve: %v, %v", fi, err)
	}
	if !GiveUp(path) || GiveUp(path) {
		t.Error("a reserve is not given up once")
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() != 0 {
		t.Fatalf("the reserve that was given up: %v, %v", fi, err)
	}
	if err := Reserve(filepath.Join(path, "below"), 1); err == nil {
		t.Error("a reserve is made below a file")
	}
}

func TestLeft(t *testing.T) {
	dir := t.TempDir()
	if bytes, inodes, err := Left(dir); err != nil || bytes == 0 || inodes == 0 {
		t.Errorf("%d bytes, %d inodes, %v are left", bytes, inodes, err)
	}
	if !Has(dir, 1, 1) || Has(dir, Unknown, Unknown) && Has(dir, 1<<62, 1<<62) != Has(dir, Unknown, Unknown) {
		t.Error("Has does not compare")
	}
	for _, d := range []string{dir, filepath.Join(dir, "not", "there"), "not/there", ""} {
		if Shortage(d) != "is full" {
			t.Errorf("%q: %s", d, Shortage(d))
		}
	}
}

// A directory keeps inodes as well, and is empty when it is given up.
func TestReserveDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reserve")
	GiveUpDir(dir)
	for range 2 {
		if err := ReserveDir(dir, 5, 100); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) != 5 {
		t.Fatalf("%v, %v", there, err)
	}
	GiveUpDir(dir)
	if there, err := os.ReadDir(dir); err != nil || len(there) != 0 {
		t.Errorf("left: %v, %v", there, err)
	}
}
