# mtshim -- see README.md. The targets that people use: all demo check bench install uninstall clean.
# Variables: PREFIX, DESTDIR, JEMALLOC=static|none, BUILD=release|debug|asan|tsan, CC.

PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
BINDIR   ?= $(PREFIX)/bin
INCDIR   ?= $(PREFIX)/include
JEMALLOC ?= static
BUILD    ?= release
VERSION  := 0.1.0
PYTHON   ?= /usr/bin/python3

ifeq ($(BUILD),release)
B := build
else
B := build/$(BUILD)
endif

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Wcast-qual -Wwrite-strings -Werror
common   := -std=c11 -D_GNU_SOURCE -DMT_VERSION='"$(VERSION)"' -g $(warnings) -Ishim -MMD -MP
flags_release := -O2
flags_debug   := -Og -DMT_DEBUG
flags_asan    := -O1 -DMT_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
flags_tsan    := -O1 -DMT_DEBUG -fsanitize=thread
optimise := $(flags_$(BUILD)) $(CFLAGS)

# The shim lives in other people's processes: hidden symbols, no PLT, initial-exec TLS, libc alone.
shim_flags := $(common) $(optimise) -fPIC -fvisibility=hidden -fno-plt -fno-builtin-malloc -ftls-model=initial-exec \
	-fstack-protector-strong
shim_link  := -shared -Wl,-soname,libmtshim.so -Wl,--version-script=shim/mtshim.map -Wl,-z,defs,-z,relro,-z,now \
	-Wl,--exclude-libs,ALL -static-libgcc

.PHONY: all demo check bench install uninstall clean
all: $(B)/libmtshim.so $(B)/mtctl

# ---- the embedded jemalloc: the distribution's static library, every public name with je_ before it ----
include shim/backend/jemalloc.mk

# ---- libmtshim.so ----
shim_src := $(sort $(wildcard shim/*.c shim/*/*.c))
ifeq ($(JEMALLOC),none)
shim_src := $(filter-out shim/backend/jemalloc%.c,$(shim_src))
shim_flags += -DMT_NO_JEMALLOC
endif
shim_obj := $(shim_src:%.c=$(B)/obj/%.o)

$(B)/obj/shim/%.o: shim/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(shim_flags) -c $< -o $@

$(B)/libmtshim.so: $(shim_obj) $(jemalloc_lib) shim/mtshim.map
	$(CC) $(shim_flags) $(LDFLAGS) $(shim_link) -o $@.new $(shim_obj) $(jemalloc_lib) $(jemalloc_libs)
	mv -f $@.new $@

# ---- mtctl ----
ctl_src := $(sort $(wildcard ctl/*.c))
ctl_obj := $(ctl_src:%.c=$(B)/obj/%.o)
ctl_flags := $(common) $(optimise) -I. -fPIE -fstack-protector-strong -DMT_LIBDIR='"$(LIBDIR)"'

$(B)/obj/ctl/%.o: ctl/%.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ctl_flags) $$(pkg-config --cflags jansson) -c $< -o $@

$(B)/mtctl: $(ctl_obj)
	$(CC) $(ctl_flags) $(LDFLAGS) -pie -Wl,-z,relro,-z,now -o $@.new $(ctl_obj) $$(pkg-config --libs jansson)
	mv -f $@.new $@

# ---- tests and benchmarks ----
include tests/tests.mk
include bench/bench.mk

# ---- install: by rename, never in place, so that running processes keep the old file ----
install: all
	install -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(INCDIR)
	install -m 755 $(B)/libmtshim.so $(DESTDIR)$(LIBDIR)/libmtshim.so.new
	mv -f $(DESTDIR)$(LIBDIR)/libmtshim.so.new $(DESTDIR)$(LIBDIR)/libmtshim.so
	install -m 755 $(B)/mtctl $(DESTDIR)$(BINDIR)/mtctl.new
	mv -f $(DESTDIR)$(BINDIR)/mtctl.new $(DESTDIR)$(BINDIR)/mtctl
	install -m 644 shim/mtshim.h $(DESTDIR)$(INCDIR)/mtshim.h

uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/libmtshim.so $(DESTDIR)$(BINDIR)/mtctl $(DESTDIR)$(INCDIR)/mtshim.h

clean:
	rm -rf build

-include $(shim_obj:.o=.d) $(ctl_obj:.o=.d)
