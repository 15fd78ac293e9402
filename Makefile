# mtshim -- see README.md. `make help` prints the lines that begin with #>.
#> make                  the library, mtctl, man pages and completions, into build/
#> make demo             the library on a training program, with a picture
#> make check            installs what the tests need and runs all rings, as CI does
#> make check-fast       format and all unit tests
#> make check-COMPONENT  unit tests and quick integration tests of core sys heap purge pressure python signal gpu compat ctl
#> make check-RING       one ring: unit format components exports hardening integration bench clients fault stress suites fuzz
#> make check-long       all rings, with the tests that take minutes
#> make check-asan       unit tests under a sanitizer; also check-tsan, check-valgrind, check-helgrind
#> make check-debug      a debug build, whose locks check their order
#> make check-limits     programs at a memory limit; also check-storm, fault-sweep, fuzz, soak, soak-quick
#> make check-versions   the shim and mtctl against older builds; also check-reproducible, check-aarch64
#> make check-distros    builds and tests on clean roots of Debian 12, 13 and testing (root, mmdebstrap, network)
#> make check-frameworks mtshim.integrations with the real packages of PyPI, which it installs: 7 GB
#> make bench            the suite; make bench-NAME, bench-each, bench-growth: single benches
#> make gpu-kit          one folder that checks and measures on a machine with a GPU, where nothing is built
#> make wheel            for pip, x86-64 and aarch64 (WHEEL_ARCHES), in clean roots of Debian 11; make check-wheel: in clean roots of Debian 11 to testing
#> make figures          what the documents have of shim/core/figures.def
#> make release          source archive, package, wheels, bills of materials, checksums, from a clean tree; make check-release: twice
#> make check-packaging  packages of Debian, Fedora and conda (packaging/), each in a clean root
#> make install          also uninstall, deb, dist, clean
#> Variables: PREFIX DESTDIR LIBDIR CC, JEMALLOC=static|none, JEMALLOC_ARCHIVE=FILE JEMALLOC_PREFIX=NAME, CUDA=1|0, BUILD=release|debug|asan|tsan, V=1 shows the commands.

PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
BINDIR   ?= $(PREFIX)/bin
INCDIR   ?= $(PREFIX)/include
JEMALLOC ?= static
CUDA     ?= 1
BUILD    ?= release
VERSION  := 0.2.0
PYTHON   ?= /usr/bin/python3
PKG_CONFIG ?= pkg-config
# The compiler's own: for another architecture they are others than this machine's.
ifeq ($(origin AR),default)
AR      := $(shell $(CC) -print-prog-name=ar)
endif
NM      ?= $(shell $(CC) -print-prog-name=nm)
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)

ifeq ($(BUILD),release)
B := build
else
B := build/$(BUILD)
endif
# Objects of the two kinds must not be linked together.
ifeq ($(CUDA),0)
B := $(B)/nocuda
endif

# Prints the name of each built file once, in place of commands of a thousand characters. make expands SHELL for each command.
make_letters := $(if $(findstring =,$(firstword $(MAKEFLAGS))),,$(filter-out -%,$(firstword $(MAKEFLAGS))))
ifeq ($(filter-out 0,$(V))$(findstring s,$(make_letters))$(findstring n,$(make_letters)),)
.SILENT:
SHELL = $(if $(filter-out $(B)/gen/%,$(filter $(B)/%,$@)),$(if $(told_$@),,$(eval told_$@ := 1)$(info $@)))/bin/sh
endif

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wcast-qual -Wwrite-strings -Werror
# Built files do not contain the path of their folder.
common   := -std=c11 -D_GNU_SOURCE -DMT_VERSION='"$(VERSION)"' -g '-ffile-prefix-map=$(CURDIR)=.' $(warnings) -Ishim -MMD -MP
flags_release := -O2
# Not -Og: it makes no jumps of calls in tail position, as a release does, so that the caller of malloc would be a frame of ours.
flags_debug   := -O1 -foptimize-sibling-calls -DMT_DEBUG
flags_asan    := -O1 -DMT_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
flags_tsan    := -O1 -DMT_DEBUG -fsanitize=thread
optimise := $(flags_$(BUILD)) $(CFLAGS)

# Hardening against faults of our own; scripts/check-hardening.sh checks the built files. A check of libc at run time
# (_FORTIFY_SOURCE) that fails ends the program. That is right for mtctl, and wrong for a library in another program.
guarded := -fstack-protector-strong -fstack-clash-protection
fortified := $(if $(filter release,$(BUILD)),$(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))

# The shim runs in other programs: hidden symbols, no PLT, initial-exec TLS, and no library but libc. nodelete: a program that opens
# and closes it must not unmap the code of its thread.
shim_flags := $(common) $(optimise) -fPIC -fvisibility=hidden -fno-plt -fno-builtin-malloc -ftls-model=initial-exec \
	-fdata-sections -ffunction-sections $(guarded)
shim_link  := -shared -Wl,-soname,libmtshim.so -Wl,--version-script=$(B)/gen/mtshim.map -Wl,-z,defs,-z,relro,-z,now,-z,nodelete \
	-Wl,--exclude-libs,ALL -static-libgcc -Wl,--sort-section=alignment,-z,noseparate-code,-T,shim/mtshim.lds
# Parts of libc itself from glibc 2.34 on: empty archives there, and nothing refers to them.
old_libs   := -lpthread -ldl

.PHONY: all help demo check bench install uninstall deb dist clean
all: $(B)/libmtshim.so $(B)/mtctl
help:
	@sed -n 's/^#> //p' Makefile

# ---- the embedded jemalloc: the distribution's static library, every public name with je_ before it ----
include shim/heap/jemalloc.mk

# ---- libmtshim.so ----
shim_src := $(sort $(wildcard shim/*.c shim/*/*.c))
ifeq ($(JEMALLOC),none)
shim_src := $(filter-out shim/heap/jemalloc%.c,$(shim_src))
else
shim_src := $(filter-out shim/heap/no_jemalloc.c,$(shim_src))
endif
shim_asm := $(sort $(wildcard shim/*/*.S))
ifeq ($(CUDA),0)
shim_src := $(filter-out shim/gpu/%,$(shim_src))
shim_asm := $(filter-out shim/gpu/%,$(shim_asm))
shim_flags += -DMT_NO_CUDA
map_half := /^MTSHIM/,$$d
else
map_half := /^MTSHIM/,$$p
map_quiet := -n
endif
# Files that define names of libc. A test that is linked with them would have its own malloc wrapped.
shim_interposing := shim/purge/api.c shim/core/init.c shim/gpu/lookup.c \
	shim/heap/heap.c shim/heap/jemalloc_entries.c shim/heap/composed.c shim/heap/dlsym.c shim/heap/entries.c \
	shim/heap/asleep.c shim/heap/malloc_control.c shim/heap/entries_pages.c shim/python/environment.c \
	shim/compat/compat.c shim/signal/signal.c
shim_parts := sys core heap compat pressure purge signal python gpu
shim_obj := $(foreach part,$(shim_parts),$(patsubst %,$(B)/obj/%.o,$(basename $(filter shim/$(part)/%,$(shim_src) $(shim_asm)))))

# What is compiled depends on the jemalloc that is installed, and on CUDA=: both may change between two runs.
shim_choice := $(JEMALLOC) $(jemalloc_archive) $(JEMALLOC_PREFIX) $(jemalloc_version) $(CUDA)
$(B)/gen/choice $(jemalloc_lib:=.choice): FORCE
	@mkdir -p $(@D)
	@echo '$(shim_choice)' | cmp -s - $@ || echo '$(shim_choice)' >$@

$(B)/obj/shim/%.o: shim/%.c Makefile $(B)/gen/choice
	@mkdir -p $(@D)
	$(CC) $(shim_flags) -c $< -o $@

$(B)/obj/shim/%.o: shim/%.S Makefile $(B)/gen/choice
	@mkdir -p $(@D)
	$(CC) $(shim_flags) -c $< -o $@

# These files may run before our relocation, so they call no function of libc, not even one that the compiler inserts. They may also run
# before a sanitizer's runtime is ready, which asks dlsym for the functions that it wraps.
early_flags := -fno-stack-protector -fno-builtin -fno-tree-loop-distribute-patterns
$(addprefix $(B)/obj/shim/,sys/loader.o heap/dlsym.o gpu/lookup.o): shim_flags += $(early_flags)
$(addprefix $(B)/obj/shim/,sys/loader.o heap/dlsym.o): shim_flags += -fno-sanitize=all

# A tool behind us (ASan) walks the stack by frame pointers, and would leave out the caller of malloc.
$(B)/obj/shim/heap/heap.o: shim_flags += -fno-omit-frame-pointer

# Written again only when it differs: CUDA= may change between two runs.
driver_names = printf '%s\n' '\#include "gpu/driver.def"' '\#define X(name, ...) name;' \
	'MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X)' | $(CC) -E -P -x assembler-with-cpp -Ishim - | tr -d '\n'
$(B)/gen/mtshim.map: shim/mtshim.map shim/gpu/driver.def FORCE
	@mkdir -p $(@D)
	@sed $(map_quiet) '$(map_half)' $< | sed "s/DRIVER_FUNCTIONS/$$($(driver_names))/" >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
.PHONY: FORCE

# The linker's map says which file each object is from; scripts/sbom and scripts/deb read it.
link_map = -Wl,-Map=$(B)/gen/$(@F).map

$(B)/libmtshim.so: $(shim_obj) $(jemalloc_lib) $(B)/gen/mtshim.map shim/mtshim.lds
	$(CC) $(shim_flags) $(LDFLAGS) $(shim_link) $(link_map) $(jemalloc_link) -o $@.new $(shim_obj) $(jemalloc_lib) $(old_libs)
	mv -f $@.new $@

# ---- mtctl, and its commands that are programs of their own (MT_SUBCOMMANDS in ctl/command.h), in ctl/ui/ ----
ctl_src := $(sort $(wildcard ctl/*.c ctl/*/*.c))
ctl_obj := $(ctl_src:%.c=$(B)/obj/%.o)
# The shim's own parser of a setting's value, its reading of cgroups and of NVML, and what these need.
ctl_of_shim := $(addprefix $(B)/obj/shim/,core/config.o core/cgroup.o core/file_owner.o core/log.o \
	gpu/nvml.o sys/format.o sys/loader.o sys/loader_gate.o sys/lock.o sys/main_thread.o sys/os.o sys/raw_syscall.o)
# Of libdw only the headers: mtctl loads it when it needs it.
ctl_packages := jansson libdw zlib
ctl_flags := $(common) $(optimise) -I. -fPIE $(guarded) $(fortified)
ctl_link  := -pie -Wl,-z,relro,-z,now
ctl_libs   = $$($(PKG_CONFIG) --libs jansson zlib) $(old_libs) -lm

# mtctl looks for the library and its programs in known folders below its own prefix (ctl/process/preload.c). Only another LIBDIR is
# compiled in; the file that has it is compiled again when it changes.
multiarch     := $(shell $(CC) -print-multiarch 2>/dev/null)
usual_libdirs := $(PREFIX)/lib $(PREFIX)/lib64 $(PREFIX)/lib/$(multiarch)
odd_libdir    := $(if $(filter $(PREFIX)/bin,$(BINDIR)),$(filter-out $(usual_libdirs),$(LIBDIR)),$(LIBDIR))
libdir_flags  := -DMT_LIBDIR='"$(odd_libdir)"' -DMT_MULTIARCH='"$(multiarch)"'

$(B)/obj/ctl/process/preload.o: ctl_flags += $(libdir_flags)
$(B)/obj/ctl/process/preload.o: $(B)/gen/libdir
$(B)/gen/libdir: FORCE
	@mkdir -p $(@D)
	@echo '$(odd_libdir)' | cmp -s - $@ || echo '$(odd_libdir)' >$@

# Each is one folder, one program, and needs one library more than mtctl itself.
subcommands := top plot serve
packages_top   := ncursesw
packages_plot  := cairo
packages_serve := libmicrohttpd
subcommand_bin := $(subcommands:%=$(B)/mtctl-%)
subcommand_src := $(sort $(wildcard $(subcommands:%=ctl/ui/%/*.c)))
subcommand_obj := $(subcommand_src:%.c=$(B)/obj/%.o)
all: $(subcommand_bin)

# $(call ctl_packages_of,ctl/ui/top/main.c): the packages that a file is compiled with.
ctl_packages_of = $(ctl_packages) $(packages_$(word 3,$(subst /, ,$(dir $(1)))))

$(B)/obj/ctl/%.o: ctl/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ctl_flags) $$($(PKG_CONFIG) --cflags $(call ctl_packages_of,$<)) -c $< -o $@

# routes.c includes the files of the page by .incbin, and the distribution's file of the chart library. Where there is none (Debian 11,
# Ubuntu 22.04) the page says that it has no charts.
DYGRAPHS ?= /usr/share/javascript/dygraphs/dygraph.min.js
page_files := $(wildcard ctl/ui/serve/page/*) build/gen/dygraph.js
$(B)/obj/ctl/ui/serve/routes.o $(B)/unit-obj/ctl/ui/serve/routes.o: $(page_files)
# The help of a command is that of its page.
help_pages := $(sort $(wildcard docs/mtctl/*.md))
$(B)/obj/ctl/command.o $(B)/unit-obj/ctl/command.o $(B)/fuzz/obj/ctl/command.o: build/gen/help.h
build/gen/help.h: scripts/generate/help.awk $(help_pages)
	@mkdir -p $(@D)
	awk -f $^ >$@.new
	mv -f $@.new $@

build/gen/dygraph.js: $(wildcard $(DYGRAPHS))
	@mkdir -p $(@D)
	@[ -r '$(DYGRAPHS)' ] || echo 'no $(DYGRAPHS) (libjs-dygraphs): the page of mtctl serve will have no charts' >&2
	if [ -r '$(DYGRAPHS)' ]; then cat '$(DYGRAPHS)'; fi >$@.new
	mv -f $@.new $@

$(B)/obj/ctl/process/remote_python.o $(B)/unit-obj/ctl/process/remote_python.o: ctl/process/remote_python.py

# Appended, not replaced: two folders may have a file of the same name.
$(B)/obj/libmtctl.a: $(filter-out %/main.o,$(ctl_obj)) $(ctl_of_shim)
	rm -f $@
	$(AR) qcs $@ $^

$(B)/mtctl: $(B)/obj/ctl/main.o $(B)/obj/libmtctl.a
	$(CC) $(ctl_flags) $(LDFLAGS) $(ctl_link) $(link_map) -o $@.new $^ $(ctl_libs)
	mv -f $@.new $@

define subcommand_rule
$(B)/mtctl-$(1): $(filter $(B)/obj/ctl/ui/$(1)/%,$(subcommand_obj)) $(B)/obj/libmtctl.a
	$$(CC) $$(ctl_flags) $$(LDFLAGS) $$(ctl_link) $$(link_map) -o $$@.new $$^ $$$$($(PKG_CONFIG) --libs $(packages_$(1))) $$(ctl_libs)
	mv -f $$@.new $$@
endef
$(foreach name,$(subcommands),$(eval $(call subcommand_rule,$(name))))

# What docs/json.md, docs/metrics.md and docs/json.schema.json have of the table of figures, and docs/mtctl.md and docs/mtctl/ of mtctl's help.
.PHONY: figures
figures: $(B)/mtctl
	$(PYTHON) scripts/generate/figures $< --update
	$(PYTHON) scripts/generate/mtctl-pages $< --update

# ---- tests and benchmarks ----
include tests/tests.mk
include bench/bench.mk
include tests/gpu/gpu.mk

# ---- man pages, completions, install, packages ----
include scripts/ship.mk

clean:
	rm -rf build

-include $(shim_obj:.o=.d) $(ctl_obj:.o=.d) $(subcommand_obj:.o=.d)
