#!/usr/bin/env bash
# Who may know whom (docs/design.md): an #include of ours goes to a lower rank or stays in its folder. No
# source file is longer than 500 lines, no function than 40. scripts/check-components has the rules of ctl/.
# Prints what breaks a rule, and `N passed, N failed`, a pass being a file without a finding.
set -u
cd "$(dirname "$0")/.." || exit 2

declare -A rank=([base]=0 [backend]=1 [driver]=1 [account]=2 [pool]=2 [sense]=3 [stats]=3 [worker]=4 [entry]=5 [.]=6)
longest=500
longest_function=40
passed=0
failed=0

# folder_of FILE: its folder below shim/, "." for shim/ itself.
folder_of() {
	local path=${1#shim/}
	case $path in
	*/*) echo "${path%%/*}" ;;
	*) echo . ;;
	esac
}

# resolve FILE NAME: the file of ours that #include "NAME" in FILE means; as the compiler does, its own folder first.
resolve() {
	local candidate
	for candidate in "$(dirname "$1")/$2" "shim/$2" "$2"; do
		[ -e "$candidate" ] && { realpath --relative-to=. "$candidate"; return; }
	done
}

complain() {
	echo "$1"
	findings=$((findings + 1))
}

check_shim_include() { # FILE TARGET
	local from to
	case $2 in
	shim/*) ;;
	*) complain "$1: includes $2, which is not of the shim"; return ;;
	esac
	from=$(folder_of "$1")
	to=$(folder_of "$2")
	# The public header is the contract with programs; whoever implements a part of it may see it.
	[ "$2" = shim/mtshim.h ] && return
	# The first call of a process enters through entry/, before core/init.c could have told it anything: core/init.h is the one
	# header that is included upward, and only from there.
	[ "$2" = shim/core/init.h ] && [ "$from" = entry ] && return
	[ "$from" = "$to" ] && return
	if [ -z "${rank[$from]+set}" ] || [ -z "${rank[$to]+set}" ]; then
		complain "$1: includes $2, and one of the folders has no rank"
	elif [ "${rank[$to]}" -ge "${rank[$from]}" ]; then
		complain "$1: rank ${rank[$from]} ($from) includes $2 of rank ${rank[$to]}"
	fi
}

# A function is what stands between a brace that begins a line and the next that does.
check_functions() { # FILE
	local line length
	while read -r line length; do
		complain "$1:$line: a function of $length lines, more than $longest_function"
	done < <(awk -v most=$longest_function '/^{/ {from = NR} /^}/ {if (from && NR - from - 1 > most) print from, NR - from - 1; from = 0}' "$1")
}

while IFS= read -r file; do
	findings=0
	lines=$(wc -l <"$file")
	[ "$lines" -le $longest ] || complain "$file: $lines lines, more than $longest: split it by noun"
	check_functions "$file"
	while IFS= read -r name; do
		target=$(resolve "$file" "$name")
		if [ -z "$target" ]; then
			# What the build generates is known by where it is written.
			[ -e "build/gen/$name" ] || complain "$file: includes \"$name\", which is nowhere"
			continue
		fi
		case $file in
		shim/*) check_shim_include "$file" "$target" ;;
		esac
	done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file")
	if [ $findings -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done < <(find shim -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.S' \) | LC_ALL=C sort)

# Its own sum is the last line.
components=$(scripts/check-components)
echo "$components" | sed '$d'
read -r good _ bad _ < <(echo "$components" | tail -n 1)
passed=$((passed + ${good:-0}))
failed=$((failed + ${bad:-1}))

[ $((passed + failed)) -gt 0 ] || { echo "no sources found"; failed=1; }
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
