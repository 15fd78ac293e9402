# tests/fakecuda/fakecuda.mk -- a libcuda.so.1 for machines without a GPU, one for each driver version of the tests. The objects are
# the same; each version exports only its own functions.
# build/tests/fakecuda/libcuda.so.1 is the newest; 11.0/, 12.2/, 12.8/ and 13.0/ hold one each.

.PHONY: fakecuda
fake_dir      := $(B)/tests/fakecuda
fake_src      := $(filter-out tests/fakecuda/version.c tests/fakecuda/nvml.c,$(sort $(wildcard tests/fakecuda/*.c)))
fake_obj      := $(fake_src:%.c=$(B)/obj/%.o)
fake_versions := 11.0 12.2 12.8 13.0
fake_number    = $(subst .,0,$(1))0
fake_flags    := $(common) $(filter-out -DMT_DEBUG,$(optimise)) -fPIC -fvisibility=hidden -pthread -Itests/fakecuda
fake_link     := -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete,-z,relro,-z,now
fake_libs     := $(fake_versions:%=$(fake_dir)/%/libcuda.so.1)

fakecuda: $(fake_libs) $(fake_dir)/libcuda.so.1 $(fake_dir)/libnvidia-ml.so.1

$(fake_obj): $(B)/obj/%.o: %.c Makefile tests/fakecuda/fakecuda.mk
	@mkdir -p $(@D)
	$(CC) $(fake_flags) -c $< -o $@

# "EXPORT since symbol EXPORT_END ..." to a version script of what there was by then.
$(fake_dir)/%/exports.map: tests/fakecuda/exports.in tests/fakecuda/functions.def tests/fakecuda/functions_more.def \
		tests/fakecuda/functions_stub.def tests/fakecuda/fakecuda.mk
	@mkdir -p $(@D)
	$(CC) -E -P -x c -Itests/fakecuda $< | tr -s ' \n' '\n\n' | awk -v version=$(call fake_number,$*) \
		'BEGIN { print "{ global: fakecuda_*;" } $$1 == "EXPORT" { getline since; getline symbol; \
		if (since + 0 <= version) print symbol ";" } END { print "local: *; };" }' > $@.new
	mv -f $@.new $@

$(fake_libs): $(fake_dir)/%/libcuda.so.1: $(fake_obj) $(fake_dir)/%/exports.map tests/fakecuda/version.c
	$(CC) $(fake_flags) -DFAKE_VERSION=$(call fake_number,$*) $(LDFLAGS) $(fake_link) \
		-Wl,--version-script=$(fake_dir)/$*/exports.map -o $@.new tests/fakecuda/version.c $(fake_obj)
	mv -f $@.new $@
	ln -sf libcuda.so.1 $(@D)/libcuda.so

$(fake_dir)/libcuda.so.1: $(fake_dir)/13.0/libcuda.so.1
	ln -sf 13.0/libcuda.so.1 $@
	ln -sf libcuda.so.1 $(@D)/libcuda.so

# NVML asks the fake driver of the same process, by looking it up.
$(fake_dir)/libnvidia-ml.so.1: tests/fakecuda/nvml.c tests/fakecuda/fakecuda.h Makefile tests/fakecuda/fakecuda.mk
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(fake_flags)) $(LDFLAGS) -shared -Wl,-soname,libnvidia-ml.so.1 -o $@.new $<
	mv -f $@.new $@

-include $(fake_obj:.o=.d)

# Unit tests that load the stand-in.
$(B)/tests/unit/test_entries: $(fake_dir)/libcuda.so.1
