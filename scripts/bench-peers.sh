#!/usr/bin/env bash
# Installs the programs that `ferry-bench peers` and `ferry-bench link` run
# beside Ferry, from the distribution's own packages. It needs root and Debian's
# apt-get. No service is started, now or at the next boot: the benchmark runs each
# server itself, on unprivileged ports and with a configuration of its own.
set -euo pipefail

packages=()
want() { # want PROGRAM PACKAGE
	if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; then
		packages+=("$2")
	fi
}
want vsftpd vsftpd
want curl curl
want lftp lftp
want sftp openssh-client
want sshd openssh-server
want rsync rsync
want rclone rclone
want iperf3 iperf3
want tc iproute2

if [ ${#packages[@]} -eq 0 ]; then
	echo "bench-peers: everything is installed"
	exit 0
fi
echo "bench-peers: to install: ${packages[*]}"
if [ "$(id -u)" -ne 0 ]; then
	echo "bench-peers: installing packages needs root; run: sudo make bench-peers" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "bench-peers: there is no apt-get here; install these programs with this system's own packages: ${packages[*]}" >&2
	exit 1
fi

# A package of a server starts its service unless this policy forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
if ! apt-get install -y --no-install-recommends "${packages[@]}"; then
	echo "bench-peers: the lists of packages may be old; they are fetched again" >&2
	apt-get update
	apt-get install -y --no-install-recommends "${packages[@]}"
fi
if command -v systemctl >/dev/null; then
	for package in "${packages[@]}"; do
		case $package in
		openssh-server) systemctl disable --quiet ssh || true ;;
		vsftpd | rsync | iperf3) systemctl disable --quiet "$package" || true ;;
		esac
	done
fi
echo "bench-peers: installed: ${packages[*]}"
