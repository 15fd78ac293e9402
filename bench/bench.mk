# bench.mk -- workloads, benchmarks and the demo. Included by the Makefile.
# `make bench` runs them all, `make bench-NAME` one; each prints PASS or FAIL against bench/bounds.py and fails with it.

bench_out := build/bench
bench_src := $(sort $(wildcard bench/workloads/*.c))
bench_bin := $(bench_src:bench/workloads/%.c=$(bench_out)/%)
# Workloads measure an allocator: the compiler must not see through malloc and free.
bench_flags := -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -fno-builtin-malloc -fno-builtin-free -pthread -MMD -MP

bench_names := fl_rounds steps malloc-large fragmentation stall idle instructions startup dlsym tick survivors small-pairs \
	throughput larson xmalloc mstress threads-short compute

$(bench_out)/%: bench/workloads/%.c bench/bench.mk
	@mkdir -p $(@D)
	$(CC) $(bench_flags) $< -o $@ -ldl

.PHONY: bench bench-programs $(bench_names:%=bench-%)
bench-programs: $(bench_bin)

$(bench_names:%=bench-%): bench-%: all bench-programs
	$(PYTHON) bench/run.py $* --strict --build $(B)

bench: all bench-programs
	@failed=; for name in $(bench_names); do \
		$(PYTHON) bench/run.py $$name --strict --build $(B) || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "bench: failed:$$failed"; exit 1; }

-include $(bench_bin:=.d)

# ---- what jemalloc's heap profiler costs, made ready and switched on ----
.PHONY: bench-prof
prof_candidates := --candidates shim,shim-prof-ready,shim-prof-on
bench-prof: all bench-programs
	$(PYTHON) bench/run.py instructions --label prof-instructions --runs 3 $(prof_candidates) --strict --build $(B)
	$(PYTHON) bench/run.py larson --label prof-larson $(prof_candidates) --strict --build $(B)
	$(PYTHON) bench/run.py mstress --label prof-mstress $(prof_candidates) --strict --build $(B)

# ---- 100 rounds of federated learning, three methods, without and with the shim: about 20 minutes; soak-quick: two ----
.PHONY: soak soak-quick
soak: all
	$(PYTHON) bench/run.py soak --strict --build $(B)
soak-quick: all
	$(PYTHON) bench/run.py soak --strict --build $(B) --label soak-quick --json - -- --quick

.PHONY: demo
demo:
	@MAKE="$(MAKE)" PYTHON="$(PYTHON)" scripts/demo

# ---- the device pool over a driver that does nothing: no GPU is needed ----
pool_bench_src := bench/pool/pool.c $(filter-out shim/pool/conf.c,$(wildcard shim/pool/*.c)) shim/base/os.c shim/base/lock.c
$(bench_out)/pool: $(pool_bench_src) $(wildcard shim/pool/*.h) bench/bench.mk
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -Ishim -pthread $(pool_bench_src) -o $@

.PHONY: bench-pool
bench-pool: $(bench_out)/pool
	$(bench_out)/pool
