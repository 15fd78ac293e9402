/* gpu/lookup_stubs.S -- what programs that are linked to libcuda are bound to: for each wrapper a jump of 16 bytes, in the
 * order of functions.def (gpu/lookup.c counts them), under the driver's name in the hidden version MTSHIM.
 * glibc binds an unversioned reference to the first version of an object even if it is hidden, but dlsym without a
 * version passes over it (check_match in elf/dl-lookup.c): so RTLD_DEFAULT and the program's handle see what they
 * would see without us. */
#include "sys/asm.h"
#include "gpu/driver.def"

	.balign 16
	.globl mt_lookup_stubs
	.hidden mt_lookup_stubs
mt_lookup_stubs:

#define X(name, parameters, ...)                                \
	.balign 16;                                        \
	.globl mt_export_##name;                           \
	.type mt_export_##name, %function;                 \
	mt_export_##name:                                  \
	.cfi_startproc;                                    \
	LANDING;                                           \
	BRANCH mt_entry_##name;                            \
	.cfi_endproc;                                      \
	.size mt_export_##name, . - mt_export_##name;      \
	.symver mt_export_##name, name@MTSHIM, remove;
MT_DRIVER_WRAPPED(X)
MT_DRIVER_QUERIES(X)
