/* ctl/profile/debuginfo.h -- the separate file with the debugging information of a module, for
 * libdwfl: the one that the usual places have (gdb(1), "Separate Debug Files"), if it is a regular
 * file and belongs to the module by its build ID, or by its CRC where it has none. libdwfl's own
 * search opens whatever bears the name, a FIFO too. One thread may call. */
#ifndef MT_CTL_PROFILE_DEBUGINFO_H
#define MT_CTL_PROFILE_DEBUGINFO_H

#include <elfutils/libdwfl.h>

/* Takes what is needed of a libdw that is loaded. Without it no file is found. */
void mt_debuginfo_load(void *libdw);

/* Dwfl_Callbacks.find_debuginfo: a descriptor, and the name for libdwfl to free; -1: there is none.
 */
int mt_debuginfo_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		      const char *file, const char *link, GElf_Word crc, char **out_path);

#endif
