# The embedded jemalloc. The distribution's static, position-independent library is taken apart and put together again:
#  - every public name gets je_ before it, so that nothing of it can be bound by accident;
#  - the C++ operators are left out (they would bring libstdc++; C++ programs reach us through malloc);
#  - its constructor is dropped: it starts at its first call, and not at all where another backend is chosen;
#  - the few calls by which it learns of threads, forks, settings, time and address space, and where it waits for a lock, come to us first
#    (mt_je_...), and so do those into libm (jemalloc_prof.c).
#  - calls that its headers renamed for C23 (__isoc23_strtol) get their plain names: the library runs on an older glibc than it is built on.
# Which names there are differs by version: all is taken from the library's own symbols, and each build says what it lacks.

# Public names that the shim calls, and calls of jemalloc's without which it cannot serve: a library that lacks one is refused.
# JEMALLOC_ARCHIVE is another library, JEMALLOC_PREFIX what it was configured to put before its public names (decision 80).
jemalloc_needed := aligned_alloc calloc free mallctl mallctlbymib mallctlnametomib malloc malloc_conf malloc_message malloc_stats_print \
	malloc_usable_size mallocx memalign posix_memalign realloc xallocx
jemalloc_called := mmap pthread_atfork pthread_key_create pthread_mutex_lock pthread_setspecific secure_getenv
jemalloc_hooked := $(jemalloc_called) madvise munmap readlink syscall sbrk \
	creat _Unwind_Backtrace _Unwind_GetIP log exp round

# What becomes of free ranges of pages (heap/jemalloc_unmap.c): calls of the first come to us, and ours call the rest.
jemalloc_extent_calls := ecache_alloc_grow ecache_dalloc extent_dalloc_wrapper ehooks_default_alloc_impl \
	ehooks_default_destroy_impl \
	emap_try_acquire_edata_neighbor emap_try_acquire_edata_neighbor_expand pa_alloc
jemalloc_extents := $(jemalloc_extent_calls) ecache_alloc ecache_evict extent_destroy_wrapper emap_deregister_boundary emap_register_boundary \
	arena_retain_grow_limit_get_set opt_thp pa_dalloc

# Internal functions and variables have a contract in these versions alone. In another one they get names that nobody asks for: then what
# they serve is left out, as where they are missing.
jemalloc_known    := 5.2.1 5.3.0 5.3.1
jemalloc_internal := arena_basic_stats_merge arena_cache_bin_fill_small arena_choose_hard arena_dalloc_bin_locked_handle_newly_empty arena_dalloc_promoted arena_decay \
	arena_emap_global arenas base_alloc_edata edata_cache_get edata_cache_init edata_cache_put ehooks_default_zero_impl large_dalloc large_dalloc_prep_locked large_malloc \
	large_palloc large_ralloc large_salloc $(jemalloc_extents) manual_arena_base narenas_total_get opt_disable_large_size_classes opt_oversize_threshold opt_stats_interval \
	opt_tcache oversize_threshold rtree_leaf_elm_lookup_hard stats_interval_event_handler stats_interval_new_event_wait \
	stats_interval_postponed_event_wait tcache_arena_associate tcache_arena_reassociate tcache_gc_dalloc_event_handler tcache_gc_event_handler \
	nhbins tcache_bin_flush_large tcache_bin_flush_small tcache_cleanup tsd_tcache_data_init tsd_tcache_enabled_data_init

# What a thread does every so many bytes that it allocates, which jemalloc has to print statistics: ours come instead of its own
# (heap/jemalloc_thread.c), where the library has all three. From 5.3.1 on jemalloc passes the handler one argument less.
jemalloc_events := stats_interval_event_handler stats_interval_new_event_wait stats_interval_postponed_event_wait

# How it zeroes pages that it hands out again: ours comes instead (heap/jemalloc_unmap.c).
jemalloc_replaced := ehooks_default_zero_impl

# Where a thread leaves an arena, or ends, jemalloc purges that arena: these files call ours instead (heap/jemalloc_arena.c).
jemalloc_leaving := (tcache|jemalloc)(\.pic)?\.o

# These answer otherwise than libc's where they refuse (errno, odd alignments); heap/jemalloc.c puts that right under the je_ name.
jemalloc_wrapped := aligned_alloc memalign posix_memalign realloc

# The same function, with a second argument that is passed on, by its name from 5.3.1-2 on, and by the one that it has here.
jemalloc_renamed_from := je_bin_dalloc_locked_handle_newly_empty
jemalloc_renamed_to   := je_arena_dalloc_bin_locked_handle_newly_empty

ifeq ($(JEMALLOC),static)
jemalloc_archive := $(or $(JEMALLOC_ARCHIVE),$(shell $(CC) -print-file-name=libjemalloc_pic.a))
jemalloc_lib     := build/libjemalloc_renamed.a

jemalloc_symbols  := $(shell $(NM) -g $(jemalloc_archive) 2>/dev/null | sed -n 's/.* \([A-Z]\) \([A-Za-z0-9_]*\)$$/\1:\2/p' | \
	sed -E "s/:$(JEMALLOC_PREFIX)($$(echo $(jemalloc_needed) | tr ' ' '|'))\$$/:\\1/; s/:$(jemalloc_renamed_from)\$$/:$(jemalloc_renamed_to)/" | sort -u)
jemalloc_defined  := $(patsubst je_%,%,$(filter je_%,$(foreach symbol,$(filter-out U:%,$(jemalloc_symbols)),$(word 2,$(subst :, ,$(symbol))))))
jemalloc_public   := $(filter-out je_% _Z%,$(foreach symbol,$(filter-out U:%,$(jemalloc_symbols)),$(word 2,$(subst :, ,$(symbol)))))
jemalloc_version  := $(shell strings $(jemalloc_archive) 2>/dev/null | sed -n 's/^\([0-9]*\.[0-9]*\.[0-9]*\)-[0-9]*-g[0-9a-f]*$$/\1/p' | sort -u | sed 1q)
jemalloc_is_known := $(filter $(jemalloc_version),$(jemalloc_known))
jemalloc_has       = $(and $(jemalloc_is_known),$(filter $(words $(1)),$(words $(filter $(1),$(jemalloc_defined)))))

jemalloc_flags   := $(foreach name,$(filter-out $(jemalloc_wrapped),$(jemalloc_public)),--redefine-sym $(JEMALLOC_PREFIX)$(name)=je_$(name)) \
	$(foreach name,$(jemalloc_wrapped),--redefine-sym $(JEMALLOC_PREFIX)$(name)=je_bare_$(name)) \
	$(foreach name,$(jemalloc_hooked),--redefine-sym $(name)=mt_je_$(name)) \
	--redefine-sym $(jemalloc_renamed_from)=$(jemalloc_renamed_to) \
	$(foreach name,$(patsubst U:%,%,$(filter U:__isoc23_%,$(jemalloc_symbols))),--redefine-sym $(name)=$(name:__isoc23_%=%))
ifneq ($(jemalloc_is_known),)
jemalloc_flags   += $(foreach name,$(jemalloc_events) $(jemalloc_replaced),--redefine-sym je_$(name)=mt_je_$(name) --weaken-symbol=mt_je_$(name))
else
jemalloc_flags   += $(foreach name,$(jemalloc_internal),--redefine-sym je_$(name)=je_unknown_$(name))
jemalloc_leaving := none
endif

ifneq ($(call jemalloc_has,$(jemalloc_events)),)
common     += -DMT_JEMALLOC_EVENTS
shim_flags += -DMT_JEMALLOC_EVENTS
else
jemalloc_lacks += the event after each MB that a thread allocates: growth is seen at the ticks of the worker alone;
endif

# Large blocks that are freed, or shrunk in place (heap/jemalloc_arena.c).
ifneq ($(call jemalloc_has,large_dalloc large_ralloc),)
jemalloc_link := -Wl,--wrap=je_large_dalloc,--wrap=je_large_ralloc
else
jemalloc_lacks += the end of large blocks: they are returned at the ticks of the worker alone;
endif

# Where jemalloc comes by a heap error of the program (heap/jemalloc_errors.c).
jemalloc_errors := arena_dalloc_bin_locked_handle_newly_empty arena_dalloc_promoted arena_emap_global large_dalloc_prep_locked rtree_leaf_elm_lookup_hard
ifneq ($(call jemalloc_has,$(jemalloc_errors)),)
jemalloc_link += $(foreach name,$(filter-out arena_emap_global,$(jemalloc_errors)),-Wl,--wrap=je_$(name))
else
jemalloc_lacks += what tells of heap errors: MT_CHECK finds none;
endif

# Address space that goes back (heap/jemalloc_unmap.c).
ifneq ($(call jemalloc_has,$(jemalloc_extents) $(jemalloc_errors) arenas manual_arena_base narenas_total_get),)
jemalloc_link += $(foreach name,$(jemalloc_extent_calls),-Wl,--wrap=je_$(name))
else
jemalloc_lacks += the end of free extents: address space stays mapped under RLIMIT_AS;
endif

# Large blocks that are allocated (heap/jemalloc_arena.c).
ifneq ($(call jemalloc_has,large_malloc large_palloc arenas manual_arena_base narenas_total_get),)
jemalloc_link += -Wl,--wrap=je_large_malloc,--wrap=je_large_palloc
else
jemalloc_lacks += the arena of large blocks: it is one for all threads from the first block on;
endif

# What a thread gets at its first allocation (heap/jemalloc_thread.c).
jemalloc_thread := arena_choose_hard tcache_arena_associate tcache_arena_reassociate tsd_tcache_enabled_data_init
ifneq ($(call jemalloc_has,arenas opt_tcache $(jemalloc_thread)),)
jemalloc_link += $(foreach name,$(jemalloc_thread),-Wl,--wrap=je_$(name))
else
jemalloc_lacks += a first allocation that may fail: a thread that begins without memory may crash;
endif
# What a thread does every so many bytes that it frees, how many blocks it takes at once, and when it gets its cache (heap/jemalloc_thread.c).
# The latter two have other parameters in other versions.
ifneq ($(filter 5.3.0,$(jemalloc_version)),)
ifneq ($(call jemalloc_has,tcache_gc_dalloc_event_handler tcache_gc_event_handler tsd_tcache_data_init),)
jemalloc_link += -Wl,--wrap=je_tcache_gc_event_handler,--wrap=je_tsd_tcache_data_init
endif
ifneq ($(call jemalloc_has,arena_cache_bin_fill_small),)
jemalloc_link += -Wl,--wrap=je_arena_cache_bin_fill_small
endif
# Records of extents that are no more (heap/jemalloc_records.c).
ifneq ($(call jemalloc_has,base_alloc_edata edata_cache_get edata_cache_init edata_cache_put),)
jemalloc_link += -Wl,--wrap=je_base_alloc_edata,--wrap=je_edata_cache_init
endif
# The caches of threads that sleep (heap/jemalloc_caches.c).
ifneq ($(call jemalloc_has,arena_cache_bin_fill_small nhbins tcache_bin_flush_large tcache_bin_flush_small tcache_cleanup),)
jemalloc_link += -Wl,--wrap=je_tcache_cleanup
endif
endif
ifneq ($(call jemalloc_has,tcache_gc_dalloc_event_handler),)
jemalloc_link += -Wl,--wrap=je_tcache_gc_dalloc_event_handler
shim_flags += -DMT_JEMALLOC_FREE_EVENTS
else
jemalloc_lacks += the event after what a thread frees: the caches of waiting threads stay full;
endif
ifneq ($(filter 5.2.%,$(jemalloc_version)),)
shim_flags += -DMT_JEMALLOC_CACHE_IN_ONE
endif
ifeq ($(call jemalloc_has,arenas manual_arena_base narenas_total_get arena_basic_stats_merge),)
jemalloc_lacks += the free pages of each arena: they are read by the epoch;
endif
ifeq ($(call jemalloc_has,$(jemalloc_replaced)),)
jemalloc_lacks += how free pages are zeroed: they go back to the kernel;
endif

jemalloc_missing := $(filter-out $(jemalloc_public),$(jemalloc_needed)) \
	$(filter-out $(patsubst U:%,%,$(filter U:%,$(jemalloc_symbols))),$(jemalloc_called))
jemalloc_named   := $(or $(jemalloc_version),of unknown version)
ifeq ($(wildcard $(jemalloc_archive)),)
jemalloc_refusal := $(or $(JEMALLOC_ARCHIVE),libjemalloc_pic.a) is missing: run scripts/bootstrap, or JEMALLOC=none make
else ifneq ($(strip $(jemalloc_missing)),)
jemalloc_refusal := $(jemalloc_archive) (jemalloc $(jemalloc_named)) lacks $(strip $(jemalloc_missing)) and cannot be embedded; JEMALLOC=none make goes without
endif

$(jemalloc_lib): $(wildcard $(jemalloc_archive)) shim/heap/jemalloc.mk $(jemalloc_lib).choice
	$(if $(jemalloc_refusal),@echo '$(jemalloc_refusal)' >&2; exit 1)
	$(if $(jemalloc_is_known),,@echo 'jemalloc $(jemalloc_named) is none of $(jemalloc_known): of its internals nothing is used')
	$(if $(jemalloc_lacks),@echo 'jemalloc $(jemalloc_named) lacks $(jemalloc_lacks)' | sed 's/;$$//; s/; /; lacks /g')
	@mkdir -p $(@D)
	$(OBJCOPY) $(jemalloc_flags) --remove-section=.init_array --remove-section=.rela.init_array $(jemalloc_archive) $@.new
	$(AR) d $@.new jemalloc_cpp.pic.o jemalloc_cpp.o
	for member in $$($(AR) t $@.new | grep -xE '$(jemalloc_leaving)'); do \
		$(AR) x --output $(@D) $@.new $$member && $(OBJCOPY) --redefine-sym je_arena_decay=mt_je_arena_decay $(@D)/$$member && \
		$(AR) r $@.new $(@D)/$$member && rm $(@D)/$$member || exit 1; done
	mv -f $@.new $@
else ifneq ($(JEMALLOC),none)
$(error JEMALLOC is static or none)
endif
