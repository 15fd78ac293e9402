# scripts/ship.mk -- man pages, completions, install, a Debian package, a tarball.
# Included by the Makefile, after what is built.

DATADIR  ?= $(PREFIX)/share
MANDIR   ?= $(DATADIR)/man
DOCDIR   ?= $(DATADIR)/doc/mtshim
PCDIR    ?= $(LIBDIR)/pkgconfig
BASHDIR  ?= $(DATADIR)/bash-completion/completions
ZSHDIR   ?= $(DATADIR)/zsh/site-functions
FISHDIR  ?= $(DATADIR)/fish/vendor_completions.d
MTCTL    ?= $(B)/mtctl

# ---- man pages and completions, from mtctl's own help (MTCTL: one that runs here, for a cross build) ----
generators := $(wildcard scripts/generate/*)
# The man pages (docs/man) take sections from these pages.
man_sections := docs/how-it-works.md docs/compatibility.md docs/mtctl.md
man_pages  := $(B)/man/mtctl.1 $(B)/man/mtshim.7
completions := $(B)/completions/mtctl $(B)/completions/_mtctl $(B)/completions/mtctl.fish
.PHONY: man completions
all: man completions
man: $(man_pages)
completions: $(completions)

$(B)/man/%: docs/man/%.in $(MTCTL) $(subcommand_bin) $(generators) $(man_sections) packaging/debian/changelog
	@mkdir -p $(@D)
	$(PYTHON) scripts/generate/man $(MTCTL) $< >$@.new
	mv -f $@.new $@

$(B)/completions/mtctl:      shell := bash
$(B)/completions/_mtctl:     shell := zsh
$(B)/completions/mtctl.fish: shell := fish
$(completions): $(MTCTL) $(subcommand_bin) $(generators)
	@mkdir -p $(@D)
	$(PYTHON) scripts/generate/completion $(MTCTL) $(shell) >$@.new
	mv -f $@.new $@

# Each time: PREFIX may be another one now.
$(B)/gen/mtshim.pc: packaging/mtshim.pc.in FORCE
	@mkdir -p $(@D)
	@sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCDIR@|$(INCDIR)|; s|@VERSION@|$(VERSION)|' $< >$@

# ---- install: by rename, never in place, so that running processes keep the old file ----
examples := $(wildcard scripts/examples/*)
# Pages for users; design, decisions and results of benchmarks stay with the source.
user_pages := install how-it-works settings compatibility integrations federated-learning servers gpu api mtctl json metrics \
	troubleshooting
# One page for each command, in a folder of its own.
user_pages += $(patsubst docs/%.md,%,$(wildcard docs/mtctl/*.md))
doc_files  := README.md $(user_pages:%=docs/%.md) docs/json.schema.json
doc_pages  := $(B)/doc/README.md $(user_pages:%=$(B)/doc/%.md)
# MODE:FILE:PLACE
shipped := 644:$(B)/libmtshim.so:$(LIBDIR)/libmtshim.so 755:$(B)/mtctl:$(BINDIR)/mtctl \
	$(foreach name,$(subcommands),755:$(B)/mtctl-$(name):$(LIBDIR)/mtshim/mtctl-$(name)) \
	644:shim/mtshim.h:$(INCDIR)/mtshim.h 644:$(B)/gen/mtshim.pc:$(PCDIR)/mtshim.pc \
	644:$(B)/man/mtctl.1:$(MANDIR)/man1/mtctl.1 644:$(B)/man/mtshim.7:$(MANDIR)/man7/mtshim.7 \
	644:$(B)/completions/mtctl:$(BASHDIR)/mtctl 644:$(B)/completions/_mtctl:$(ZSHDIR)/_mtctl \
	644:$(B)/completions/mtctl.fish:$(FISHDIR)/mtctl.fish \
	$(foreach file,$(doc_pages),644:$(file):$(DOCDIR)/$(file:$(B)/doc/%=%)) 644:docs/json.schema.json:$(DOCDIR)/json.schema.json \
	$(foreach file,$(examples),$(if $(filter %.sh,$(file)),755,644):$(file):$(DOCDIR)/examples/$(notdir $(file)))
# Their links lead to what is installed with them.
define write_page
@mkdir -p $(@D)
$(PYTHON) scripts/installed-page $< $(doc_files) >$@.new
mv -f $@.new $@
endef
$(B)/doc/README.md: README.md scripts/installed-page
	$(write_page)
$(B)/doc/%.md: docs/%.md scripts/installed-page
	$(write_page)

# PREFIX and the like hold no blank; DESTDIR may.
place_of = $(word 3,$(subst :, ,$(1)))

define place
install -D -m $(word 1,$(subst :, ,$(1))) $(word 2,$(subst :, ,$(1))) '$(DESTDIR)$(call place_of,$(1)).new'
mv -f '$(DESTDIR)$(call place_of,$(1)).new' '$(DESTDIR)$(call place_of,$(1))'

endef

# ldconfig, so that the loader finds the library by its bare name. Not with DESTDIR, and not without the right to.
refresh = @[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig

install: all $(B)/gen/mtshim.pc $(doc_pages)
	$(foreach entry,$(shipped),$(call place,$(entry)))
	$(refresh)

# Folders that belong only to mtshim are removed with their files.
uninstall:
	rm -f $(foreach entry,$(shipped),'$(DESTDIR)$(call place_of,$(entry))')
	for folder in $(LIBDIR)/mtshim $(DOCDIR)/examples $(DOCDIR)/mtctl $(DOCDIR); do \
		[ ! -d '$(DESTDIR)'$$folder ] || rmdir --ignore-fail-on-non-empty '$(DESTDIR)'$$folder; done
	$(refresh)

# ---- packages: into dist/ ----
deb: all
	scripts/deb $(B) $(VERSION)

# Of committed files only.
dist:
	scripts/dist $(VERSION)

# For pip, in clean roots of Debian 11; check-wheel tries them in clean roots of Debian 11, 12, 13 and testing, that for aarch64 in one of
# Debian 12 under an emulator. WHEEL_ARCHES: one of them.
WHEEL_ARCHES ?= x86_64 aarch64
.PHONY: wheel check-wheel
wheel:
	WHEEL_ARCHES='$(WHEEL_ARCHES)' scripts/wheel/make $(VERSION)

check-wheel:
	status=0; for arch in $(WHEEL_ARCHES); do \
		scripts/wheel/check dist/mtshim-$(VERSION)-py3-none-manylinux_2_26_$$arch.whl || status=1; done; exit $$status

# All files of a release from the commit, in a clone of it; the tree must be clean. check-release makes them twice and compares.
.PHONY: release check-release
release check-release:
	WHEEL_ARCHES='$(WHEEL_ARCHES)' scripts/release $(if $(filter check-%,$@),--twice) $(VERSION)

# The distributions' packages (packaging/), each built in a clean root. PACKAGINGS: some of debian, fedora, conda.
.PHONY: check-packaging
check-packaging:
	scripts/check-packaging $(PACKAGINGS)

# Builds the commit twice, in minutes. Older versions against this one: tests/versions/versions.mk.
.PHONY: check-reproducible
check-reproducible:
	scripts/check-reproducible
