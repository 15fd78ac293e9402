# tests/fuzz/fuzz.mk -- the readers and allocators under libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer: fuzz is the
# long run, check-fuzz the short one of CI; fuzz-coverage says which lines the inputs of the repository reach.
# Variables: FUZZ_S=seconds a target (1200: with two at once an hour in all), FUZZ_CC.

.PHONY: fuzz check-fuzz fuzz-targets fuzz-coverage

FUZZ_CC ?= clang
FUZZ_S  ?= 1200
fuzz_at ?= build/fuzz
fuzz_names := settings kernel files http heap pool
ifeq ($(JEMALLOC),none) # half of what is tried is not there then
fuzz_names :=
endif

# What a target has beside fuzz_NAME.c, what of the machine is played, and what it is linked with.
fuzz_parts_settings := settings_ctl
fuzz_parts_kernel   := kernel_shim kernel_ctl
fuzz_parts_files    := files_drawn forge
fuzz_parts_heap     := heap_composed
fuzz_wrap_settings  := mt_error_say
fuzz_wrap_kernel    := open access opendir
fuzz_wrap_files     := nanosleep mt_symbolizer_fill mt_canvas_text_width mt_limit_find mt_process_maps
fuzz_wrap_http      := mt_cache_get mt_jobs_start
fuzz_packages_files := cairo
fuzz_packages_http  := libmicrohttpd

# gcc has warned already, and has other warnings; the targets themselves are warned about here.
fuzz_check  := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
fuzz_base   := $(filter-out $(warnings) -g,$(common)) -gline-tables-only -O1 -DMT_DEBUG -I. -Itests/lib -Itests/fuzz \
	-fno-builtin-malloc $(libdir_flags) $(fuzz_check)
fuzz_strict := $(filter-out -Wmissing-prototypes,$(warnings)) -Wno-unused-function

# Of the archive of the unit tests what may be asked for here.
fuzz_lib_src := $(filter-out shim/gpu/entries%,$(unit_lib_src))
fuzz_lib_obj := $(fuzz_lib_src:%.c=$(fuzz_at)/obj/%.o)
fuzz_own_obj := $(patsubst tests/fuzz/%.c,$(fuzz_at)/obj/tests/fuzz/%.o,$(wildcard tests/fuzz/*.c))
fuzz_bin     := $(fuzz_names:%=$(fuzz_at)/%)

$(fuzz_own_obj): fuzz_base += $(fuzz_strict)
$(fuzz_at)/obj/%.o: %.c Makefile tests/fuzz/fuzz.mk
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_base) -fsanitize=fuzzer-no-link $$(pkg-config --cflags $(call ctl_packages_of,$<) libmicrohttpd) -c $< -o $@

$(fuzz_at)/libfuzzed.a: $(fuzz_lib_obj)
	rm -f $@
	ar qcs $@ $^

$(fuzz_at)/obj/ctl/ui/serve/routes.o: $(page_files)

define fuzz_rule
$(fuzz_at)/$(1): $(addprefix $(fuzz_at)/obj/tests/fuzz/,fuzz_$(1).o fuzz.o root.o $(fuzz_parts_$(1):%=%.o)) $(fuzz_at)/libfuzzed.a $(jemalloc_lib)
	$$(FUZZ_CC) $$(fuzz_check) -fsanitize=fuzzer -o $$@ $$(filter %.o,$$^) $(fuzz_wrap_$(1):%=-Wl,--wrap=%) \
		-Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
		$$$$(pkg-config --libs jansson zlib $(fuzz_packages_$(1))) -ldl -lm -pthread
endef
$(foreach name,$(fuzz_names),$(eval $(call fuzz_rule,$(name))))

fuzz-targets: $(fuzz_bin)

fuzz: fuzz-targets
	@tests/fuzz/run --build $(fuzz_at) --seconds $(FUZZ_S)

check-fuzz: fuzz-targets
	@tests/run fuzz

# Other objects: what counts lines is no sanitizer.
fuzz-coverage:
	@$(MAKE) --no-print-directory fuzz_at=build/fuzz/coverage fuzz_check="-fprofile-instr-generate -fcoverage-mapping" fuzz-targets
	@tests/fuzz/run --build build/fuzz/coverage --coverage

-include $(fuzz_lib_obj:.o=.d) $(fuzz_own_obj:.o=.d)
