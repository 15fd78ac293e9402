# tests/suites/suites.mk -- other people's test suites under the preload (tests/suites/suite_table.py). CI runs a part of them as
# the ring `suites`; this runs all, takes most of an hour, and prints a table. SUITES='glibc cpython/test_signal' chooses some.

.PHONY: check-suites
check-suites: all
	@scripts/bootstrap --suites
	@tests/suites/run --build $(B) $(SUITES)
