# The embedded jemalloc. The distribution's static, position-independent library is taken apart and put together again:
#  - every public name gets je_ before it, so that nothing of it can be bound by accident;
#  - the C++ operators are left out (they would bring libstdc++; C++ programs reach us through malloc);
#  - its constructor is dropped: it starts at its first call, and not at all where another backend is chosen;
#  - the few calls by which it learns of threads, forks, settings, time and address space, and where it waits for a lock, come to us first
#    (mt_je_...), and so do those into libm (jemalloc_math.c).
jemalloc_public := aligned_alloc calloc dallocx free mallctl mallctlbymib mallctlnametomib malloc malloc_conf \
	malloc_conf_2_conf_harder malloc_message malloc_stats_print malloc_usable_size mallocx memalign nallocx \
	posix_memalign rallocx realloc sallocx sdallocx valloc xallocx
jemalloc_hooked := secure_getenv readlink pthread_key_create pthread_setspecific pthread_atfork pthread_mutex_lock mmap \
	clock_gettime syscall pthread_cond_init getpid sbrk \
	creat _Unwind_Backtrace _Unwind_GetIP log exp round

# What a thread does every so many bytes that it allocates, which jemalloc has to print statistics: ours come instead of its own
# (heap/jemalloc_event.c), where the library has all three.
jemalloc_events := stats_interval_event_handler stats_interval_new_event_wait stats_interval_postponed_event_wait

# How it zeroes pages that it hands out again: ours comes instead (heap/jemalloc_zero.c).
jemalloc_replaced := ehooks_default_zero_impl

# Where a thread leaves an arena, or ends, jemalloc purges that arena: these files call ours instead (heap/jemalloc_arena.c).
jemalloc_leaving := (tcache|jemalloc)(\.pic)?\.o

# These answer otherwise than libc's where they refuse (errno, odd alignments); heap/jemalloc.c puts that right under the je_ name.
jemalloc_wrapped := aligned_alloc memalign posix_memalign realloc

ifeq ($(JEMALLOC),static)
jemalloc_archive := $(shell $(CC) -print-file-name=libjemalloc_pic.a)
jemalloc_lib     := build/libjemalloc_renamed.a
jemalloc_flags   := $(foreach name,$(filter-out $(jemalloc_wrapped),$(jemalloc_public)),--redefine-sym $(name)=je_$(name)) \
	$(foreach name,$(jemalloc_wrapped),--redefine-sym $(name)=je_bare_$(name)) \
	$(foreach name,$(jemalloc_hooked),--redefine-sym $(name)=mt_je_$(name)) \
	$(foreach name,$(jemalloc_events) $(jemalloc_replaced),--redefine-sym je_$(name)=mt_je_$(name) --weaken-symbol=mt_je_$(name))

jemalloc_defined := $(shell nm -g --defined-only $(jemalloc_archive) 2>/dev/null | sed -n 's/.* T je_//p')
ifeq ($(words $(filter $(jemalloc_events),$(jemalloc_defined))),$(words $(jemalloc_events)))
common     += -DMT_JEMALLOC_EVENTS
shim_flags += -DMT_JEMALLOC_EVENTS
endif

# Large blocks that are freed, or shrunk in place (heap/jemalloc_large.c).
ifeq ($(words $(filter large_dalloc large_ralloc large_salloc,$(jemalloc_defined))),3)
jemalloc_link := -Wl,--wrap=je_large_dalloc,--wrap=je_large_ralloc
endif

# Large blocks that are allocated (heap/jemalloc_arena.c).
ifeq ($(words $(filter large_malloc large_palloc,$(jemalloc_defined))),2)
jemalloc_link += -Wl,--wrap=je_large_malloc,--wrap=je_large_palloc
endif

$(jemalloc_lib): $(jemalloc_archive) shim/heap/jemalloc.mk
	@test -f "$(jemalloc_archive)" || { echo "libjemalloc_pic.a is missing: run scripts/bootstrap, or JEMALLOC=none make"; exit 1; }
	@mkdir -p $(@D)
	objcopy $(jemalloc_flags) --remove-section=.init_array --remove-section=.rela.init_array $< $@.new
	ar d $@.new jemalloc_cpp.pic.o jemalloc_cpp.o
	for member in $$(ar t $@.new | grep -xE '$(jemalloc_leaving)'); do \
		ar x --output $(@D) $@.new $$member && objcopy --redefine-sym je_arena_decay=mt_je_arena_decay $(@D)/$$member && \
		ar r $@.new $(@D)/$$member && rm $(@D)/$$member || exit 1; done
	mv -f $@.new $@
else ifneq ($(JEMALLOC),none)
$(error JEMALLOC is static or none)
endif
