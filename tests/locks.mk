# tests/locks.mk -- what looks for deadlocks and races, beside check-tsan: a debug shim, whose locks are checked at each take
# (shim/base/lock_check.h), under the tests that fork, signal and race; Helgrind for the order in which our locks are taken with
# jemalloc's; and the storm of everything at once.

.PHONY: check-debug check-helgrind check-storm
STORM_SECONDS ?= 600

check-debug: test-programs
	@$(MAKE) --no-print-directory BUILD=debug all unsafe-shims
	@tests/run --build build/debug --only fork,hard_moments,signals,rounds,cuda_pool,cuda_races,cuda_ends,python_calls,churn,storm \
		integration stress

check-storm: all
	@tests/stress/storm.py --seconds $(STORM_SECONDS) --shim $(B)/libmtshim.so --mtctl $(B)/mtctl

# Its race detector knows locks alone, and most of what threads share here is atomic: see tests/helgrind.supp.
check-helgrind: unit-tests
	@tests/run --build $(B) --wrapper helgrind --only reaper_threads unit
