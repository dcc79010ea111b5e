#!/bin/sh -e
# Puts the lines of a file into a queue, and makes a file of them again.
printf 'one;two;three' >"$OUT/words.txt"
fteCreateTransfer -w -t text -sa ALPHA -da BETA -dq ESTATE.WORDS@QM1 -dqdt ';' words.txt
fteCreateTransfer -w -sa ALPHA -da BETA -df words/all.txt -sq -sqdb x0A -sqdp postfix ESTATE.WORDS
printf 'one\ntwo\nthree\n' | cmp - "$IN/words/all.txt"
set +e
fteCreateTransfer -w -sa ALPHA -da BETA -df words/none.txt -sq -sqwt 1 ESTATE.WORDS 2>/dev/null
[ $? -eq 40 ] || exit 9
echo "the queue is empty"
