/* outside.h -- included before every file of glibc's tests. It defines what glibc's own build would
 * have defined, as it fits the installed libc. */
#include <limits.h>
#include <stdbool.h>

#define attribute_hidden
#define hidden_proto(...)
#define libc_hidden_proto(...)
#define IS_IN(library) 0
#define IS_IN_LIB      0

#define TIMEOUTFACTOR        1
#define SRCDIR_PATH          "/nonexistent"
#define OBJDIR_PATH          "/nonexistent"
#define OBJDIR_ELF_LDSO_PATH "/nonexistent"
#define INSTDIR_PATH         "/usr"
#define BINDIR_PATH          "/usr/bin"
#define SBINDIR_PATH         "/usr/sbin"
#define ROOTSBINDIR_PATH     "/sbin"
#define LIBDIR_PATH          "/usr/lib"
#define SLIBDIR_PATH         "/lib"
#define SYSCONFDIR_PATH      "/etc"
#define COMPLOCALEDIR_PATH   "/usr/lib/locale"
