# tests/tests.mk -- the test rings. `make check` is what CI runs; each ring has a target of its own.
# This file only builds; tests/run runs the tests, counts, and prints the last line.

.PHONY: check check-unit check-format check-components check-exports check-hardening check-integration check-clients check-fault check-stress check-bench \
	check-long check-fast check-asan check-tsan check-valgrind check-aarch64 unit-tests test-packages

# ---- unit tests: the objects of shim and mtctl as an archive ----
# Files that define names of libc are left out, since they would wrap the test's own malloc. The driver's wrappers are in it: their symbols
# are no names of the driver's (gpu/lookup.h). main.c files are left out.
unit_lib_src := $(filter-out $(shim_interposing),$(shim_src)) tests/lib/component_table.c \
	$(filter-out %/main.c,$(ctl_src) $(subcommand_src))
unit_lib_obj := $(unit_lib_src:%.c=$(B)/unit-obj/%.o)
# Tests lie in the folder of the component that they test, shared code in tests/lib. No two tests have the same file name.
unit_src     := $(sort $(wildcard tests/*/test_*.c))
ifeq ($(CUDA),0)
unit_src     := $(filter-out tests/gpu/% tests/python/test_framework%,$(unit_src))
endif
unit_bin     := $(addprefix $(B)/tests/unit/,$(notdir $(unit_src:.c=)))
vpath test_%.c $(sort $(dir $(unit_src)))
# It compiles in half the time, and the tests take 6 s of CPU time more.
unit_flags   := $(filter-out -g,$(common)) -g1 $(optimise:-O2=-O0) -DMT_DEBUG -I. -Itests/lib -fPIE -fno-builtin-malloc $(libdir_flags)
ifeq ($(JEMALLOC),none)
unit_flags += -DMT_NO_JEMALLOC
endif

# Criterion cannot live with ThreadSanitizer: see tests/tsan/criterion/criterion.h.
ifeq ($(BUILD),tsan)
unit_flags += -Itests/tsan -Wno-format-zero-length
unit_libs  := -pthread
else
unit_libs  := -lcriterion -pthread
endif

$(B)/unit-obj/%.o: %.c Makefile tests/tests.mk $(B)/gen/choice
	@mkdir -p $(@D)
	$(CC) $(unit_flags) $$(pkg-config --cflags $(call ctl_packages_of,$<)) -c $< -o $@

# Appended, not replaced: two folders may have a file of the same name.
$(B)/unit-obj/libunit.a: $(unit_lib_obj)
	rm -f $@
	ar qcs $@ $^

$(unit_bin): $(B)/tests/unit/%: %.c $(B)/unit-obj/libunit.a $(jemalloc_lib) tests/tests.mk
	@mkdir -p $(@D)
	$(CC) $(unit_flags) -MF $@.dep $$(pkg-config --cflags $(ctl_packages)) $(LDFLAGS) -pie -o $@ $< -Wl,--start-group $(B)/unit-obj/libunit.a \
		$(jemalloc_lib) -Wl,--end-group $$(pkg-config --libs jansson zlib) -ldl -lm $(unit_libs)

unit-tests: $(unit_bin)

# ---- a driver for machines without a GPU ----
include tests/fakecuda/fakecuda.mk

# ---- deadlocks and races ----
include tests/locks.mk

# ---- older builds ----
include tests/versions/versions.mk

# ---- other people's test suites ----
include tests/suites/suites.mk


# ---- fuzzing of all readers ----
include tests/fuzz/fuzz.mk


# ---- fault injection: a shim whose calls can be made to fail ----
include tests/fault/fault.mk

# ---- the rings ----
# Installs missing packages. Without the right to install it prints their names and fails.
test-packages:
	@scripts/bootstrap --check >/dev/null 2>&1 || scripts/bootstrap

# All programs that the rings run. Programs for a GPU run on the stand-in driver (tests/gpu/gpu.mk).
.PHONY: test-programs
test-programs: all unit-tests bench-programs fault-shim
ifneq ($(CUDA),0)
test-programs: fakecuda gpu-kit-files unsafe-shims # these need the stand-in driver
endif

check: test-packages
	@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$$(nproc)) test-programs
	@scripts/in-plain-path tests/run --build $(B) unit format components exports hardening integration bench clients fault stress suites

check-unit: unit-tests
	@scripts/in-plain-path tests/run --build $(B) unit

check-format check-components: check-%:
	@tests/run $*

check-exports check-hardening: check-%: all
	@scripts/in-plain-path tests/run --build $(B) $*

check-integration check-clients check-fault check-stress: check-%: test-programs
	@scripts/in-plain-path tests/run --build $(B) $*

# The benchmarks themselves are bench/bench.mk.
check-bench: all bench-programs
	@scripts/in-plain-path tests/run --build $(B) bench

# For use while writing code: half a minute on a quiet machine, once it is built.
check-fast: unit-tests
	@scripts/in-plain-path tests/run --build $(B) format unit

# One component: its unit tests and its quick integration tests. Installs nothing: a test whose package is missing is skipped.
components := core sys heap purge pressure python signal gpu compat ctl
unit_of     = $(addprefix $(B)/tests/unit/,$(notdir $(basename $(filter tests/$(1)/%,$(unit_src)))))
.PHONY: $(components:%=check-%)
$(foreach component,$(components),$(eval check-$(component): $(call unit_of,$(component))))
$(components:%=check-%): check-%: all
	@scripts/in-plain-path tests/run --build $(B) --component $* unit integration
ifneq ($(CUDA),0)
$(components:%=check-%): fakecuda
check-gpu: gpu-kit-files unsafe-shims
endif

# Clean roots of other releases of Debian. DISTROS: options of the script, for example '--release testing --rings unit'.
.PHONY: check-distros
check-distros:
	@scripts/check-distros $(DISTROS)

check-long: test-programs $(if $(filter 0,$(CUDA)),,fuzz-targets)
	@scripts/in-plain-path tests/run --build $(B) --long unit format components exports hardening integration bench clients fault stress suites $(if $(filter 0,$(CUDA)),,fuzz)

check-asan check-tsan: check-%:
	@$(MAKE) --no-print-directory BUILD=$* unit-tests
	@scripts/in-plain-path tests/run --build build/$* unit

# A part of the integration ring. It needs no file that is built for this machine.
check-aarch64:
	@$(PYTHON) -m pytest tests/integration/test_aarch64.py

check-valgrind: unit-tests
	@scripts/in-plain-path tests/run --build $(B) --wrapper valgrind unit

# Needs the network: installs the frameworks from PyPI, once, and leaves tests out whose packages are not to be had.
.PHONY: check-frameworks
check-frameworks: all
	-@tests/frameworks/venv
	@tests/run --build $(B) frameworks

-include $(unit_lib_obj:.o=.d) $(unit_bin:=.dep)

# ---- the shim without the pool's fences, and without its capture gate, only for tests that must fail with them; and with a slow
# change to jemalloc. The linker puts the functions of tests/*/VARIANT.c, or its whole object, in the place of the shim's ----
.PHONY: unsafe-shims
unsafe-shims: $(B)/tests/nofence/libmtshim.so $(B)/tests/nogate/libmtshim.so $(B)/tests/slow_wake/libmtshim.so
nofence_replaced := %/gpu/fence.o
slow_wake_wrapped := mt_backend_use_jemalloc
nogate_wrapped  := mt_capture_gate_enter mt_capture_gate_leave mt_capture_is_open

define unsafe_shim
$(B)/tests/$(1)/libmtshim.so: $$(wildcard tests/*/$(1).c) $$(shim_obj) $$(jemalloc_lib) $$(B)/gen/mtshim.map Makefile tests/tests.mk
	@mkdir -p $$(@D)
	$$(CC) $$(shim_flags) $$(LDFLAGS) $$(shim_link) $$(addprefix -Wl$$(comma)--wrap=,$$($(1)_wrapped)) -o $$@.new $$< \
		$$(filter-out $$($(1)_replaced),$$(filter %.o,$$^)) $$(jemalloc_lib)
	mv -f $$@.new $$@
endef
comma := ,
$(foreach variant,nofence nogate slow_wake,$(eval $(call unsafe_shim,$(variant))))
