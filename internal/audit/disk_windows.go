package audit

// Missing lists what the platform lacks of what the log relies on.
func Missing() []string { return []string{"directory sync"} }

// syncDir does nothing: Windows has no sync of a directory.
func syncDir(string) error { return nil }
