package ledger_test

const childDir = "FERRY_LEDGER_CHILD"

func child(dir string) int { return 0 }
