package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// EnvFile names the one settings file to read instead of the usual ones.
const EnvFile = "FERRY_CONFIG"

// Paths are the settings files, the one that wins first. FERRY_CONFIG, where
// it is set, names the only one.
func Paths() []string {
	if p := os.Getenv(EnvFile); p != "" {
		return []string{p}
	}
	var paths []string
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "ferry", "config.yaml"))
	}
	return append(paths, systemFile(runtime.GOOS, os.Getenv))
}

func systemFile(goos string, getenv func(string) string) string {
	if goos == "windows" {
		if dir := getenv("ProgramData"); dir != "" {
			return filepath.Join(dir, "ferry", "config.yaml")
		}
		return `C:\ProgramData\ferry\config.yaml`
	}
	return "/etc/ferry/config.yaml"
}

// StateDir returns the directory of Ferry's state when none is named: XDG_STATE_HOME/ferry or ~/.local/state/ferry,
// Application Support on macOS, the local application data on Windows. It is not created.
func StateDir() (string, error) {
	home, _ := os.UserHomeDir()
	return stateDir(runtime.GOOS, home, os.Getenv)
}

func stateDir(goos, home string, getenv func(string) string) (string, error) {
	switch goos {
	case "windows":
		if dir := getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, "ferry"), nil
		}
		return "", errors.New("no state directory: %LocalAppData% is not set; name one with --dir")
	case "darwin", "ios":
		if home != "" {
			return filepath.Join(home, "Library", "Application Support", "ferry"), nil
		}
	default:
		// The XDG rules say that a relative path is to be ignored.
		if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "ferry"), nil
		}
		if home != "" {
			return filepath.Join(home, ".local", "state", "ferry"), nil
		}
	}
	return "", errors.New("no state directory: HOME is not set; set XDG_STATE_HOME or HOME, or name one with --dir where the command has it")
}
