#!/bin/sh -e
# Sends a text to the host in its code page, and has it back.
printf 'Stra\303\237e\nWeg\n' >"$OUT/street.txt"
fteCreateTransfer -w -t text -sa ALPHA -da BETA -sce UTF-8 -dce IBM-1047 -dle LF -df host/street.ebcdic street.txt
fteCreateTransfer -w -t text -sa BETA -da ALPHA -sce IBM-1047 -dce UTF-8 -dle CRLF -df street.back host/street.ebcdic
printf 'Stra\303\237e\r\nWeg\r\n' | cmp - "$OUT/street.back"
echo "the text is the same"
