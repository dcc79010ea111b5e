#!/bin/sh -e
# Keeps the daily transfer as a template, and writes it as XML.
fteCreateTemplate -tn estate_daily -jn DAILY -sa ALPHA -da BETA -de overwrite -dd daily orders.csv
fteListTemplates -v 'estate_d*' | grep 'Exist: *overwrite'
fteListTemplates -x -o . estate_daily
grep -q '<managedTransfer>' estate_daily.xml
fteDeleteTemplates estate_daily
test -z "$(fteListTemplates | grep estate_daily)"
echo "the template is gone"
