# gpu.mk -- what is for a machine with a GPU. Included by the Makefile. `make gpu-kit` makes one folder, build/gpu-kit, that runs there as it
# is: CONTRIBUTING.md.

gpu_flags := -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -Ishim -Itests/gpu -pthread
gpu_common := tests/gpu/gpu.c
gpu_out := $(B)/tests/gpu
gpu_bin := $(gpu_out)/probe $(gpu_out)/checks $(gpu_out)/pairs $(gpu_out)/phases

$(gpu_out)/probe: $(wildcard tests/gpu/probe*.c)
$(gpu_out)/checks: $(wildcard tests/gpu/check_*.c) tests/gpu/checks.c
$(gpu_out)/pairs: bench/gpu/pairs.c
$(gpu_out)/phases: bench/gpu/phases.c
$(gpu_bin): $(gpu_common) tests/gpu/gpu.mk $(wildcard tests/gpu/*.h tests/gpu/*.def shim/gpu/driver*.h shim/gpu/driver*.def)
	@mkdir -p $(@D)
	$(CC) $(gpu_flags) $(LDFLAGS) $(filter %.c,$^) -o $@ -ldl -lm

.PHONY: gpu-kit gpu-kit-files gpu-programs
gpu-programs: $(gpu_bin)

gpu_kit := $(B)/gpu-kit

# mtctl with libjansson and libz inside: the machine may have neither.
$(gpu_out)/mtctl: $(B)/obj/ctl/main.o $(B)/obj/libmtctl.a
	@mkdir -p $(@D)
	$(CC) $(ctl_flags) $(LDFLAGS) $(ctl_link) -o $@ $^ -l:libjansson.a -l:libz.a $(old_libs) -lm

gpu_kit_bench := bounds.py lib/__init__.py lib/machine.py lib/peers.py lib/ratio.py lib/report.py $(patsubst bench/%,%,$(wildcard bench/gpu/*.py) bench/gpu/run)
gpu-kit-files: $(gpu_bin) $(B)/libmtshim.so $(gpu_out)/mtctl
	rm -rf $(gpu_kit)
	mkdir -p $(gpu_kit)/build/tests/gpu $(gpu_kit)/tests/gpu $(gpu_kit)/bench/lib $(gpu_kit)/bench/gpu
	for file in $(B)/libmtshim.so $(gpu_out)/mtctl; do $(OBJCOPY) --strip-debug $$file $(gpu_kit)/build/$${file##*/} || exit 1; done
	for file in $(gpu_bin); do $(OBJCOPY) --strip-debug $$file $(gpu_kit)/build/tests/gpu/$${file##*/} || exit 1; done
	cp -r tests/gpu/kit tests/gpu/clients $(gpu_kit)/tests/gpu/
	for file in $(gpu_kit_bench); do cp bench/$$file $(gpu_kit)/bench/$$file || exit 1; done
	find $(gpu_kit) -name __pycache__ -prune -exec rm -r {} +
	{ git describe --always --dirty 2>/dev/null || echo $(VERSION); } >$(gpu_kit)/COMMIT
	printf '%s\n' '#!/bin/sh' 'here=$${0%/*}; [ "$$here" != "$$0" ] || here=.' 'exec python3 -B "$$here/tests/gpu/kit" "$$@"' >$(gpu_kit)/run
	chmod 755 $(gpu_kit)/run

# The cubins are for drivers that come without their PTX compiler; scripts/bootstrap --gpu fetches ptxas from PyPI.
gpu_targets := 80 86 89 90 100 103 120 121
gpu_ptxas = $(firstword $(wildcard build/ptxas/nvidia/cu13/bin/ptxas) $(shell command -v ptxas))
gpu-kit: gpu-kit-files
	[ -n '$(gpu_ptxas)' ] || scripts/bootstrap --gpu
	$(gpu_out)/checks --role ptx >$(gpu_out)/kernels.ptx
	$(MAKE) --no-print-directory $(gpu_targets:%=$(gpu_kit)/build/tests/gpu/kernels.sm_%.cubin)
	@echo "$(gpu_kit): $$(du -sh $(gpu_kit) | cut -f1): $(gpu_kit)/run truth|clients|figures OUTDIR"

$(gpu_kit)/build/tests/gpu/kernels.sm_%.cubin: FORCE
	$(gpu_ptxas) -arch sm_$* -o $@ $(gpu_out)/kernels.ptx
