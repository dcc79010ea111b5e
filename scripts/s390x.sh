#!/usr/bin/env bash
# Runs Ferry for System z (linux/s390x, where the most significant byte comes
# first) under an emulator: the tests of the packages that have formats of their
# own, then a network whose agents are of both architectures. The emulator is
# QEMU's for programs of other processors; root has it installed with apt-get.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

emulator() {
	command -v qemu-s390x-static || command -v qemu-s390x
}

if ! emulator >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "test-s390x: QEMU's user emulator of s390x is missing, and there is no apt-get here; install it with this system's own packages: qemu-s390x-static or qemu-s390x must be in the PATH" >&2
		exit 1
	fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "test-s390x: QEMU's user emulator of s390x is missing; run: sudo apt-get install qemu-user-static" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	if ! apt-get install -y --no-install-recommends qemu-user-static; then
		echo "test-s390x: the lists of packages may be old; they are fetched again" >&2
		apt-get update
		apt-get install -y --no-install-recommends qemu-user-static
	fi
fi
qemu=$(emulator)
echo "test-s390x: $("$qemu" --version | head -n 1)"

# Bytes in, bytes out: what these write is read on other hosts, or later.
packages=(content/codepage content/compress content/conversion content/digest content/record wire audit ledger)
found=()
for name in "${packages[@]}"; do
	if [ -d "internal/$name" ]; then found+=("./internal/$name"); fi
done
CGO_ENABLED=0 GOOS=linux GOARCH=s390x "${GO:-go}" test -exec "$qemu" -count=1 -timeout 30m "${found[@]}"
CGO_ENABLED=0 SYSTEMZ=1 "${GO:-go}" test -count=1 -timeout 30m -v ./test/systemz
