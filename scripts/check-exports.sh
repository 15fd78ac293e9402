#!/usr/bin/env bash
# Checks that libmtshim.so exports exactly the names of shim/mtshim.map, and needs only libc and the loader, and no symbol
# newer than glibc 2.34 (Debian 12, Ubuntu 22.04, RHEL 9). Hardening: scripts/check-hardening.sh.
#   scripts/check-exports.sh [BUILD-FOLDER]    (NM names an nm for another architecture)
set -u
cd "$(dirname "$0")/.." || exit 2
library=${1:-build}/libmtshim.so
newest=2.34
. scripts/verdict.sh

if [ ! -e "$library" ]; then
	echo "FAIL $library is not there"
	echo "0 passed, 1 failed"
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# names_of FILE: the map without comments, from each global: to the next local: or }, one name a line.
names_of() {
	sed -e 's|/\*[^*]*\*/||g' "$1" | tr '\n' ' ' | sed -e 's|/\*\([^*]\|\*[^/]\)*\*/||g' -e 's/}/\n/g' |
		sed -n 's/.*global:\(.*\)/\1/p' | sed -e 's/local:.*//' | tr ';' '\n' | tr -d ' \t' | grep -v '^$' | LC_ALL=C sort -u
}

# Built with CUDA=1, the map for the linker has the version node (see shim/mtshim.map).
cuda=$(grep -c '^MTSHIM' "${1:-build}/gen/mtshim.map")
if [ "$cuda" -gt 0 ]; then
	# the driver's names come from gpu/driver.def
	{ sed '/^MTSHIM/,$d' shim/mtshim.map; cat "${1:-build}/gen/mtshim.map"; } >"$work/half"
else
	sed '/^MTSHIM/,$d' shim/mtshim.map >"$work/half"
fi
# A pattern in the map would hide exported names.
names_of "$work/half" >"$work/map"
# nm lists version nodes as absolute symbols; no program can bind to them.
"${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u >"$work/exported"
"${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { print $3 }' >"$work/versioned"
verdict "the driver's names are in a hidden version, all others in none" \
	"$(awk '/^cu/ != /[^@]@MTSHIM$/' "$work/versioned")"
verdict "the map names no patterns" "$(grep '[*?[]' "$work/map")"
verdict "every exported name is in shim/mtshim.map" "$(LC_ALL=C comm -13 "$work/map" "$work/exported")"
verdict "every name of shim/mtshim.map is exported" "$(LC_ALL=C comm -23 "$work/map" "$work/exported")"
verdict "something is exported" "$([ -s "$work/exported" ] || echo nothing)"

readelf -dW "$library" >"$work/dynamic"
verdict "needs libc and the loader alone" \
	"$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" | grep -v -E '^(libc\.so\.6|ld-linux[-a-z0-9_]*\.so\.[0-9])$')"
verdict "no symbol newer than GLIBC_$newest" \
	"$(readelf -VW "$library" | grep -o 'GLIBC_[0-9][0-9.]*' | sort -u | while IFS=_ read -r _ version; do
		[ "$(printf '%s\n' "$version" $newest | sort -V | tail -1)" = $newest ] || echo "GLIBC_$version"; done)"
verdict "no symbol of the other libraries' private kind" "$(readelf -VW "$library" | grep -o 'GLIBC_PRIVATE' | sort -u)"
verdict "it is never unloaded" "$(grep -qE '\(FLAGS_1\).*NODELETE' "$work/dynamic" || echo "no NODELETE")"
verdict "no static constructor order is asked of the loader" "$(grep -oE '\(INITFIRST\)|INITFIRST' "$work/dynamic")"

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
