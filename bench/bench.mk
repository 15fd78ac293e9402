# bench.mk -- workloads, benchmarks and the demo. Included by the Makefile.
# `make bench` is the suite, which compares with other allocators. `make bench-NAME` runs a single bench, `make bench-each` all of
# these. They print PASS or FAIL against bench/bounds.py, and fail if a bound is missed.

bench_out := build/bench
bench_src := $(sort $(wildcard bench/workloads/*.c))
bench_cxx := $(sort $(wildcard bench/workloads/*.cc))
bench_bin := $(bench_src:bench/workloads/%.c=$(bench_out)/%) $(bench_cxx:bench/workloads/%.cc=$(bench_out)/%)
# Workloads measure an allocator: the compiler must not see through malloc and free.
bench_flags := -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -fno-builtin-malloc -fno-builtin-free -pthread -MMD -MP

bench_names := fl_rounds steps malloc-large fragmentation stall idle instructions startup dlsym tick survivors small-pairs \
	throughput larson xmalloc mstress threads-short compute rounds-30s

$(bench_out)/%: bench/workloads/%.c bench/bench.mk
	@mkdir -p $(@D)
	$(CC) $(bench_flags) $< -o $@ -ldl

bench_cxx_flags := -std=c++17 -O2 -g -Wall -Wextra -Wshadow -Werror -fno-builtin-malloc -fno-builtin-free -pthread -MMD -MP
$(bench_out)/%: bench/workloads/%.cc bench/bench.mk
	@mkdir -p $(@D)
	$(CXX) $(bench_cxx_flags) $< -o $@

.PHONY: bench bench-quick bench-each bench-programs $(bench_names:%=bench-%)
bench-programs: $(bench_bin)

$(bench_names:%=bench-%): bench-%: all bench-programs
	$(PYTHON) bench/run.py $* --strict --build $(B)

bench-each: all bench-programs
	@failed=; for name in $(bench_names); do \
		$(PYTHON) bench/run.py $$name --strict --build $(B) || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "bench: failed:$$failed"; exit 1; }

# Installs and builds first what is missing. After an interrupt bench/suite.py --resume goes on.
bench bench-quick: test-packages
	@$(MAKE) --no-print-directory all bench-programs
	$(PYTHON) bench/suite.py $(if $(filter bench-quick,$@),--quick) --build $(B)

-include $(bench_bin:=.d)

# ---- further promises of the suite: requested trims, rounds that are 30 s apart; 15 minutes ----
.PHONY: bench-promises bench-report
bench_promises := survivors stall rounds-30s
bench-promises: all bench-programs
	for name in $(bench_promises); do $(PYTHON) bench/run.py $$name --no-bounds --build $(B) || exit 1; done

# Tables and plots of the newest results, for the documentation.
newest = $(lastword $(sort $(wildcard bench/results/$(1)-2*.json)))
bench-report:
	$(PYTHON) bench/report.py $(call newest,suite) \
		$(foreach name,$(bench_promises) growth,$(addprefix --also ,$(call newest,$(name)))) --markdown bench/results/README.md --plots bench/results

# ---- README's rows and those of docs/benchmarks.md beside the peers of today, in rounds until the minutes are over: 20, 40 or 90.
# Root, mmdebstrap and the network, once, for the peers of Debian testing. bench-pages writes the newest proof into both documents. ----
.PHONY: bench-peers bench-proof bench-pages
MINUTES ?= 40
bench-peers:
	bench/peers/get

bench-proof: bench-peers test-packages
	@$(MAKE) --no-print-directory all bench-programs
	$(PYTHON) bench/suite.py --proof $(MINUTES) --build $(B) $(PROOF)

bench-pages:
	$(PYTHON) bench/pages.py

# ---- what small processes, Python's objects and threads cost under each allocator: CPU time, instructions, page faults, memory.
# An hour for Python, minutes for the others. PEERS="--peer NAME=FILE" adds allocators. ----
.PHONY: bench-costs bench-costs-python bench-costs-processes bench-costs-servers bench-costs-threads bench-costs-pools
bench-costs: bench-costs-processes bench-costs-threads bench-costs-python
bench-costs-processes: all
	$(PYTHON) bench/costs/small_processes.py --build $(B) --instructions $(PEERS)
# what ten small servers hold at rest: three minutes, and those of them that are installed
bench-costs-servers: all
	$(PYTHON) bench/costs/small_servers.py --build $(B)
# what pools of 100, 300 and 800 threads hold that have freed all they had: a minute
bench-costs-pools: all
	$(PYTHON) bench/costs/idle_threads.py
bench-costs-threads: all bench-programs
	$(PYTHON) bench/costs/threads.py --build $(B) --instructions $(PEERS)
bench-costs-python: all
	$(PYTHON) bench/costs/python_objects.py --build $(B) --instructions $(PEERS)

# ---- what `mtctl sites --python` costs the program that it looks at: two minutes ----
.PHONY: bench-lines
bench-lines: all
	$(PYTHON) bench/costs/python_lines.py --build $(B)

# ---- cost of jemalloc's heap profiler, prepared and switched on ----
.PHONY: bench-prof
prof_candidates := --candidates shim,shim-prof-ready,shim-prof-on
bench-prof: all bench-programs
	$(PYTHON) bench/run.py instructions --label prof-instructions --runs 3 $(prof_candidates) --strict --build $(B)
	$(PYTHON) bench/run.py larson --label prof-larson $(prof_candidates) --strict --build $(B)
	$(PYTHON) bench/run.py mstress --label prof-mstress $(prof_candidates) --strict --build $(B)

# ---- cost of a malloc, a trim and a tick with more threads, heap and blocks: about 10 minutes; GROWTH=--quick: one ----
.PHONY: bench-growth
bench-growth: all bench-programs
	$(PYTHON) bench/growth.py --build $(B) $(GROWTH)

# ---- 100 rounds of federated learning, three methods, without and with the shim: about 20 minutes; soak-quick: two ----
.PHONY: soak soak-quick
soak: all
	$(PYTHON) bench/run.py soak --strict --build $(B)
soak-quick: all
	$(PYTHON) bench/run.py soak --strict --build $(B) --label soak-quick --json - -- --quick

# ---- cost of `mtctl serve` with 100 processes, at 1 and 1,000 scrapes a second: a minute, on a quiet machine ----
.PHONY: bench-serve
bench-serve: all
	$(PYTHON) bench/serve/serve.py --strict --build $(B)

# ---- cost of `mtctl top` with 100 processes: a minute and a half, on a quiet machine ----
.PHONY: bench-top
bench-top: all
	$(PYTHON) bench/top/top.py --strict --build $(B)

# ---- cost of `mtctl ps` with 1,000 processes: half a minute, on a quiet machine ----
$(bench_out)/process_list: bench/ps/process_list.c $(B)/obj/libmtctl.a bench/bench.mk
	@mkdir -p $(@D)
	$(CC) $(ctl_flags) $(ctl_link) $< $(B)/obj/libmtctl.a -o $@ $(ctl_libs)

.PHONY: bench-ps
bench-ps: all $(bench_out)/process_list
	$(PYTHON) bench/ps/ps.py --strict --build $(B)

.PHONY: demo
demo:
	@MAKE="$(MAKE)" PYTHON="$(PYTHON)" scripts/demo

# ---- the pictures of `mtctl top` in docs/screens: five minutes ----
.PHONY: screens
screens: all
	$(PYTHON) scripts/screens --build $(B)

# ---- the device pool over a driver that does nothing: no GPU is needed ----
pool_bench_src := bench/pool/pool.c $(addprefix shim/gpu/,blocks.c capture.c context.c \
	fence.c pool.c release.c) shim/core/config.c shim/core/log.c \
	$(addprefix shim/sys/,format.c os.c raw_syscall.c lock.c loader.c loader_gate.c main_thread.c)
$(bench_out)/pool: $(pool_bench_src) $(wildcard shim/gpu/*.h) tests/lib/null_driver.h bench/bench.mk
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -Ishim -Itests/lib -pthread $(pool_bench_src) -o $@

.PHONY: bench-pool
bench-pool: $(bench_out)/pool $(bench_out)/standin $(B)/libmtshim.so fakecuda
	$(PYTHON) bench/run.py pool --strict; status=$$?; $(PYTHON) bench/pool/standin.py --build $(B) && exit $$status

$(bench_out)/standin: bench/pool/standin.c tests/gpu/gpu.c $(wildcard tests/gpu/*.h shim/gpu/driver*) bench/bench.mk
	@mkdir -p $(@D)
	$(CC) $(gpu_flags) $(LDFLAGS) bench/pool/standin.c tests/gpu/gpu.c -o $@ -ldl -lm

# ---- transparent huge pages: what becomes of purged memory within five minutes; 10 minutes, root; HUGE=--quick: seconds ----
.PHONY: bench-huge-pages
bench-huge-pages: all bench-programs
	$(PYTHON) bench/huge/huge.py --build $(B) $(HUGE)

# ---- what programs of PyTorch and a FastAPI service hold at rest; 15 minutes, and the packages of make check-frameworks ----
.PHONY: bench-rest
bench-rest: all
	-@tests/frameworks/venv torch
	$(PYTHON) bench/rest.py --build $(B)

# ---- what programs cost where the machine's setting is `always`; 10 minutes, root ----
.PHONY: bench-huge-times
bench-huge-times: all bench-programs
	$(PYTHON) bench/huge/times.py --build $(B) $(HUGE)
