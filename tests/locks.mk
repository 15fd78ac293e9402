# tests/locks.mk -- searches for deadlocks and races, beside check-tsan. check-debug: a debug shim, which checks each lock that is taken
# (shim/sys/lock.h), under the tests that fork, signal and race. check-helgrind: the order of our locks and jemalloc's. check-storm:
# all operations at once. check-limits: many programs at a memory limit.

.PHONY: check-debug check-helgrind check-storm check-limits
STORM_SECONDS ?= 600
LIMIT_RUNS ?= 120

check-debug: test-programs
	@$(MAKE) --no-print-directory BUILD=debug all unsafe-shims
	@tests/run --build build/debug --only fork,hard_moments,signals,rounds,cuda_pool,cuda_races,cuda_ends,python_calls,churn,storm \
		integration stress

check-storm: all
	@tests/stress/storm.py --seconds $(STORM_SECONDS) --shim $(B)/libmtshim.so --mtctl $(B)/mtctl

check-limits: all
	@tests/stress/limits.py --runs $(LIMIT_RUNS) --shim $(B)/libmtshim.so
	@tests/stress/limits_prefork.py --shim $(B)/libmtshim.so --ctl $(B)/mtctl

# Its race detector knows only locks, and most shared data here is atomic: see tests/helgrind.supp.
check-helgrind: unit-tests
	@tests/run --build $(B) --wrapper helgrind --only worker_threads unit
