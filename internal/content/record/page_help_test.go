package record

// ASCII returns the page of ASCII and of all pages that extend it, with LF as its line end.
func ASCII() Page {
	return Page{' ', []byte{'\n'}, '0', '1', '+', '-', '\f', '\r', false}
}

// EBCDIC returns the page of all EBCDIC pages, which agree in these characters, with NL (0x15) as its line end.
func EBCDIC() Page {
	return Page{0x40, []byte{0x15}, 0xF0, 0xF1, 0x4E, 0x60, 0x0C, 0x0D, false}
}
