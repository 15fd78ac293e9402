/* ctl/profile/debuginfo.h -- finds separate files of debugging information for libdwfl, in the
 * usual directories (gdb(1), "Separate Debug Files"). A file is used only if it is regular and has
 * the build ID of the module, or the CRC where the module has no ID. libdwfl's own search opens any
 * file of the name, also a FIFO. For one thread. */
#ifndef MT_CTL_PROFILE_DEBUGINFO_H
#define MT_CTL_PROFILE_DEBUGINFO_H

#include <elfutils/libdwfl.h>

/* Looks up the functions of a loaded libdw. Without them no file is found. */
void mt_debuginfo_load(void *libdw);

/* For Dwfl_Callbacks.find_debuginfo. Returns a descriptor, with the name in *out_path for libdwfl
 * to free; -1: none. */
int mt_debuginfo_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		      const char *file, const char *link, GElf_Word crc, char **out_path);

#endif
