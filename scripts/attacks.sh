#!/usr/bin/env bash
# Installs the programs with which make test-attacks looks at the ports of a network: nmap and
# testssl.sh, as Debian has them. It needs root.
set -euo pipefail

missing=()
command -v nmap >/dev/null || missing+=(nmap)
command -v testssl >/dev/null || missing+=(testssl.sh)
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
