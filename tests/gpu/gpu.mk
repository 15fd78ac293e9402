# gpu.mk -- what is for a machine with a GPU; docs/gpu.md. Included by the Makefile.
# gpu-check and gpu-bench build nothing where everything that gpu-tools makes is there already: a build/ that was made
# elsewhere and carried over runs on a machine without compiler, jemalloc or jansson. GPU_BENCH: arguments for bench/gpu/run.

gpu_flags := -std=c11 -D_GNU_SOURCE -O2 -g $(warnings) -Ishim -Itests/gpu -pthread
gpu_common := tests/gpu/gpu.c
gpu_out := $(B)/tests/gpu
gpu_bin := $(gpu_out)/probe $(gpu_out)/checks $(gpu_out)/pairs $(gpu_out)/phases
gpu_needs := $(gpu_bin) $(B)/libmtshim.so $(B)/mtctl

$(gpu_out)/probe: $(wildcard tests/gpu/probe*.c)
$(gpu_out)/checks: $(wildcard tests/gpu/check_*.c) tests/gpu/checks.c
$(gpu_out)/pairs: bench/gpu/pairs.c
$(gpu_out)/phases: bench/gpu/phases.c
$(gpu_bin): $(gpu_common) tests/gpu/gpu.mk $(wildcard tests/gpu/*.h tests/gpu/*.def shim/gpu/driver*.h shim/gpu/driver*.def)
	@mkdir -p $(@D)
	$(CC) $(gpu_flags) $(LDFLAGS) $(filter %.c,$^) -o $@ -ldl -lm

.PHONY: gpu-tools gpu-check gpu-bench gpu-programs gpu-kernels
gpu-programs: $(gpu_bin)
gpu-tools: all gpu-programs gpu-kernels

# Where an assembler is at hand; only for drivers that come without their PTX compiler.
gpu-kernels: $(gpu_out)/checks
	@command -v ptxas >/dev/null || exit 0; \
	$(gpu_out)/checks --role ptx > $(gpu_out)/kernels.ptx && for target in 80 86 89 90 100 120; do \
		ptxas -arch sm_$$target -o $(gpu_out)/kernels.sm_$$target.cubin $(gpu_out)/kernels.ptx || exit 1; done

gpu_if_missing = for file in $(gpu_needs); do [ -x $$file ] || { $(MAKE) --no-print-directory gpu-tools || exit 1; break; }; done
gpu-check:
	@$(gpu_if_missing)
	tests/gpu/check --build $(B) --probe $(B)/gpu-probe.json

gpu-bench:
	@$(gpu_if_missing)
	bench/gpu/run --build $(B) $(GPU_BENCH)

