/* inject_names.h -- the names of inject.def as words, for the linker (fault.mk). */
#include "inject.def"
#define X(type, name, parameters, arguments, failed, usual) name
INJECT_FUNCTIONS(X)
#undef X
#define X(name, usual) name
INJECT_BY_HAND(X)
mt_raw_syscall_call mt_system_plain_ops mt_glibc_ops
