# tests/tests.mk -- the test rings. `make check` is what CI runs; each ring has a target of its own.
# Counting, and the one closing line, is tests/run's work; this file only builds.

.PHONY: check check-unit check-layers check-exports check-integration check-clients check-fault check-stress check-long \
	check-asan check-tsan check-valgrind unit-tests test-packages

# ---- unit tests: the shim's insides as an archive, without entry/ (else malloc itself would be wrapped in the test) ----
unit_lib_src := $(filter-out shim/mtshim.c shim/entry/%,$(shim_src)) $(filter-out ctl/main.c,$(ctl_src))
unit_lib_obj := $(unit_lib_src:%.c=$(B)/unit-obj/%.o)
unit_src     := $(sort $(wildcard tests/unit/test_*.c))
unit_bin     := $(unit_src:tests/unit/%.c=$(B)/tests/unit/%)
unit_flags   := $(common) $(optimise) -DMT_DEBUG -I. -Itests/unit -fPIE -fno-builtin-malloc -DMT_LIBDIR='"$(LIBDIR)"'
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

$(B)/unit-obj/%.o: %.c Makefile tests/tests.mk
	@mkdir -p $(@D)
	$(CC) $(unit_flags) $$(pkg-config --cflags jansson) -c $< -o $@

$(B)/unit-obj/libunit.a: $(unit_lib_obj)
	rm -f $@
	ar rcs $@ $^

$(B)/tests/unit/%: tests/unit/%.c $(B)/unit-obj/libunit.a $(jemalloc_lib) tests/tests.mk
	@mkdir -p $(@D)
	$(CC) $(unit_flags) $$(pkg-config --cflags jansson) $(LDFLAGS) -pie -o $@ $< -Wl,--start-group $(B)/unit-obj/libunit.a \
		$(jemalloc_lib) -Wl,--end-group $(jemalloc_libs) $$(pkg-config --libs jansson) $(unit_libs)

unit-tests: $(unit_bin)

# ---- the rings ----
# Where something is missing, install it if we may; a machine where we may not gets the list and fails here.
test-packages:
	@scripts/bootstrap --check >/dev/null 2>&1 || scripts/bootstrap

check: test-packages
	@$(MAKE) --no-print-directory all unit-tests
	@tests/run --build $(B) unit layers exports integration clients fault stress

check-unit: unit-tests
	@tests/run --build $(B) unit

check-layers:
	@tests/run layers

check-exports: all
	@tests/run --build $(B) exports

check-integration check-clients check-fault check-stress: check-%: all
	@tests/run --build $(B) $*

check-long: all unit-tests
	@tests/run --build $(B) --long unit layers exports integration clients fault stress

check-asan check-tsan: check-%:
	@$(MAKE) --no-print-directory BUILD=$* unit-tests
	@tests/run --build build/$* unit

check-valgrind: unit-tests
	@tests/run --build $(B) --wrapper valgrind unit

-include $(unit_lib_obj:.o=.d) $(unit_bin:=.d)
