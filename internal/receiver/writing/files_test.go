package writing

import "testing"

func TestFilesMove(t *testing.T) {
	var f files
	one, two := &file{item: 1}, &file{item: 2}
	if f.cur = one; f.of(1) != one || f.heldOf(1) != nil || f.unended() != one || !f.has(one) {
		t.Fatal("the current file is not found")
	}
	one.ended = true
	f.hold()
	f.hold()
	if f.cur != nil || f.of(1) != one || f.unsummed() != 1 || f.unended() != nil {
		t.Fatalf("a file that has ended is not held: %+v", f)
	}
	f.cur = two
	if all := f.all(); len(all) != 2 || all[1] != two || f.unended() != two {
		t.Errorf("%d files", len(all))
	}
	f.hold()
	if f.unended() != two {
		t.Error("the file of the last epoch is not found")
	}
	f.resume(two)
	if f.cur != two || len(f.held) != 1 || f.heldOf(2) != nil {
		t.Errorf("it does not go on: %+v", f)
	}
	one.summed = true
	if f.unsummed() != 0 {
		t.Error("a file with its digest waits for it")
	}
	f.remove(one)
	f.remove(two)
	f.remove(two)
	if len(f.all()) != 0 || f.has(one) || f.has(two) {
		t.Errorf("files are left: %+v", f)
	}
}
