#!/usr/bin/env bash
# Checks the hardening of the built files: read-only relocations, bound at load time; no segment that is both written and executed;
# canaries and probed stacks; programs at random addresses; no RPATH. It uses only readelf, so a file of another architecture will do.
#   scripts/check-hardening.sh [BUILD-FOLDER [FILE...]]
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-build}
files=${*:2}
. scripts/verdict.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# look FILE: reads all that the checks need, once.
look() {
	readelf -hW "$1" >"$work/head"
	readelf -lW "$1" >"$work/segments"
	readelf -dW "$1" >"$work/dynamic"
	readelf --dyn-syms -W "$1" | awk '$7 == "UND" { sub(/@.*/, "", $8); print $8 }' >"$work/wanted"
	# The debugging information has the compiler's flags, but not those of libraries that are linked in.
	readelf -p .debug_str "$1" 2>/dev/null | grep -o 'GNU C[0-9]* .*' >"$work/compiled"
	readelf -p .debug_line_str "$1" 2>/dev/null | grep -o 'GNU C[0-9]* .*' >>"$work/compiled"
}

# unguarded: the compilers' command lines that lack one or the other. What runs before the library's own relocation has no canary
# to compare with (early_flags in the Makefile): it is known by the last of its flags.
unguarded() {
	grep -v -e '-fstack-clash-protection' "$work/compiled"
	grep -v -e '-fstack-protector-strong' "$work/compiled"
	grep -e '-fno-stack-protector' "$work/compiled" | grep -v -e '-fno-tree-loop-distribute-patterns'
}

# check_both NAME: checks of libraries and programs.
check_both() {
	verdict "$1: relocations are read-only once they are made" \
		"$(grep -q GNU_RELRO "$work/segments" || echo 'no GNU_RELRO')$(grep -qE '\(FLAGS(_1)?\).*NOW|\(BIND_NOW\)' "$work/dynamic" || echo ' no NOW')"
	verdict "$1: the stack is not executable" \
		"$(awk '$1 == "GNU_STACK" { seen = 1; if ($0 ~ /RWE/) print "RWE" } END { if (!seen) print "no GNU_STACK" }' "$work/segments")"
	verdict "$1: no segment is both written and executed" "$(awk '$1 == "LOAD" && / (RWE|WE|W E) /' "$work/segments")"
	verdict "$1: no text relocations" "$(grep -o TEXTREL "$work/dynamic")"
	verdict "$1: no RPATH, no RUNPATH" "$(grep -oE '\((RPATH|RUNPATH)\)' "$work/dynamic")"
	verdict "$1: it is at no fixed address" "$(grep -q 'Type: *DYN' "$work/head" || echo 'not DYN')"
	verdict "$1: stacks have canaries" "$(grep -qx '__stack_chk_fail' "$work/wanted" || echo 'no __stack_chk_fail')"
	verdict "$1: every file was compiled with canaries and probed stacks" \
		"$([ -s "$work/compiled" ] || [ -n "$files" ] || echo 'no debugging information')$(unguarded | cut -c1-60)"
}

# Its few libraries by name: a program with a missing library does not start.
check_program() { # NAME LIBRARIES
	verdict "$1: it is a program at a random address" "$(grep -q 'FLAGS_1.*PIE' "$work/dynamic" || echo 'no PIE')"
	verdict "$1: libc checks the sizes of buffers" "$(grep -q '^__[a-z]*_chk$' "$work/wanted" || echo 'no checked function')"
	verdict "$1: needs no library but its own" \
		"$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" | grep -v -E "^($2|libc\.so\.6|libm\.so\.6|ld-linux[-a-z0-9_]*\.so\.[0-9])$")"
}

common='libjansson\.so\.4|libz\.so\.1'
for file in ${files:-libmtshim.so mtctl mtctl-top mtctl-plot mtctl-serve}; do
	if [ ! -e "$build/$file" ]; then
		verdict "$file is there" missing
		continue
	fi
	look "$build/$file"
	check_both "$file"
	case $file in
	mtctl) check_program "$file" "$common" ;;
	mtctl-top) check_program "$file" "$common|libncursesw\.so\.6|libtinfo\.so\.6" ;;
	mtctl-plot) check_program "$file" "$common|libcairo\.so\.2" ;;
	mtctl-serve) check_program "$file" "$common|libmicrohttpd\.so\.12" ;;
	libmtshim.so)
		# A check that fails ends the program, which is not ours to end (Makefile).
		verdict "$file: nothing in it ends the program because of a size" "$(grep '^__[a-z]*_chk$' "$work/wanted")"
		;;
	esac
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
