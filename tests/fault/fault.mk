# fault.mk -- builds the shim and the programs of the fault sweeps. That shim is linked so that each call that may fail passes through
# inject.c first. Only for tests.

fault_dir  := $(B)/tests/faults
fault_lib  := $(fault_dir)/libmtshim.so
fault_bin  := $(fault_dir)/phases $(fault_dir)/filter
fault_flags := -std=c11 -Wall -Wextra -Werror -O1 -g -D_GNU_SOURCE -pthread -fno-builtin -Ishim
ifneq ($(CUDA),0)
fault_bin  += $(fault_dir)/cuda_entries
endif
# Three lists of inject.def, as words.
fault_names = $(shell $(CC) -E -P -x c tests/fault/inject_names.h)

.PHONY: fault-shim fault-sweep
fault-shim: $(fault_lib) $(fault_bin)

$(fault_dir)/inject.o: tests/fault/inject.c tests/fault/inject.def Makefile tests/fault/fault.mk
	@mkdir -p $(@D)
	$(CC) $(shim_flags) -c $< -o $@

$(fault_lib): $(shim_obj) $(fault_dir)/inject.o $(jemalloc_lib) $(B)/gen/mtshim.map tests/fault/inject_names.h
	$(CC) $(shim_flags) $(LDFLAGS) $(shim_link) $(jemalloc_link) $(fault_names:%=-Wl,--wrap=%) -o $@.new $(filter %.o,$^) $(jemalloc_lib)
	mv -f $@.new $@

$(fault_dir)/phases: tests/fault/phases.c tests/fault/filter.c tests/fault/filter.h tests/fault/fault.mk
	@mkdir -p $(@D)
	$(CC) $(fault_flags) -o $@ $(filter %.c,$^)

$(fault_dir)/filter: tests/fault/filter.c tests/fault/filter.h tests/fault/fault.mk
	@mkdir -p $(@D)
	$(CC) $(fault_flags) -DPROGRAM -o $@ $<

$(fault_dir)/cuda_entries: tests/gpu/cuda_entries.c $(wildcard tests/gpu/cuda_*.h) $(fake_dir)/libcuda.so.1 tests/fault/fault.mk
	@mkdir -p $(@D)
	$(CC) $(fault_flags) -o $@ $< -L$(fake_dir) -lcuda

# Every call, every error: docs/reliability.md. SWEEP: arguments for tests/fault/sweep.py.
fault-sweep: test-programs
	$(PYTHON) tests/fault/sweep.py --build $(B) $(SWEEP)

-include $(fault_dir)/inject.d
