# scripts/verdict.sh -- functions of the check scripts that count and print their results.
passed=0
failed=0

verdict() { # TITLE FINDINGS: no findings is a pass
	if [ -z "$2" ]; then
		passed=$((passed + 1))
		echo "ok   $1"
	else
		failed=$((failed + 1))
		echo "FAIL $1:" $2
	fi
}
