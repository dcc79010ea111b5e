package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"ferry/internal/textfile"
	"ferry/internal/transfer"
)

// readInput reads a file that a command names, or with "-" standard input. what says for people what it is. Of
// what has more than most bytes it gives most and one more, which its parser refuses.
func readInput(cmd *cobra.Command, what, name string, most int64) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "the %s cannot be read: %w", what, err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the %s %s cannot be read: %w", what, name, err)
	}
	return data, nil
}

// readText is readInput for a text.
func readText(cmd *cobra.Command, kind, name string, most int64) ([]byte, error) {
	data, err := readInput(cmd, kind, name, most)
	if err != nil {
		return nil, err
	}
	if data, err = textfile.UTF8(data); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the %s %s cannot be read: %w", kind, name, err)
	}
	return data, nil
}
