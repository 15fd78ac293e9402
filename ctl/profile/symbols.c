#include "ctl/profile/sites.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/read_file.h"
#include "ctl/process/smaps.h"
#include "ctl/process/watchdog.h"
#include "ctl/profile/profile_internal.h"
#include "sys/saturating.h"

/* The functions of libdw, which is loaded when it is first needed: mtctl must start without it. */
#define FUNCTIONS(X)                                                                               \
	X(dwfl_begin)                                                                              \
	X(dwfl_end)                                                                                \
	X(dwfl_report_begin_add)                                                                   \
	X(dwfl_report_elf)                                                                         \
	X(dwfl_report_end)                                                                         \
	X(dwfl_module_addrname)                                                                    \
	X(dwfl_module_getsrc)                                                                      \
	X(dwfl_lineinfo)                                                                           \
	X(dwfl_linux_proc_find_elf)
/* Without these the separate debugging information is not looked for. */
#define DEBUGINFO_FUNCTIONS(X)                                                                     \
	X(dwfl_module_build_id) X(dwelf_elf_gnu_build_id) X(elf_version) X(elf_begin) X(elf_end)

static struct {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
	DEBUGINFO_FUNCTIONS(X)
#undef X
	bool finds_debuginfo;
} libdw;

/* ---- separate debugging information ---- */

/* Finds separate files of debugging information for libdwfl, in the usual directories (gdb(1),
 * "Separate Debug Files"). A file is used only if it is regular and has the build ID of the module,
 * or the CRC if the module has no ID. libdwfl's own search opens any file of the name, also a
 * FIFO. For one thread. */

#define ROOT "/usr/lib/debug"

/* What identifies the file of a module. */
struct wanted {
	const unsigned char *id;
	int id_bytes; /* 0 or less: no build ID */
	GElf_Word crc;
};

static bool has_id(int fd, const struct wanted *wanted)
{
	Elf *elf = libdw.elf_begin(fd, ELF_C_READ_MMAP, NULL);
	const void *id = NULL;
	ssize_t bytes = elf ? libdw.dwelf_elf_gnu_build_id(elf, &id) : -1;
	bool same = bytes > 0 && bytes == wanted->id_bytes &&
		    memcmp(id, wanted->id, (size_t)bytes) == 0;

	if (elf)
		libdw.elf_end(elf);
	return same;
}

static bool has_crc(int fd, const struct wanted *wanted)
{
	unsigned char block[32768];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t got;

	for (; (got = pread(fd, block, sizeof(block), at)) > 0; at += got)
		crc = crc32(crc, block, (uInt)got);
	return got == 0 && at > 0 && crc == wanted->crc;
}

/* Returns -1 if it is missing, is no regular file, or belongs to another module. */
static int try_path(const char *path, const struct wanted *wanted)
{
	int fd = mt_read_file_open(path);

	if (fd < 0 || (wanted->id_bytes > 0 ? has_id(fd, wanted) : has_crc(fd, wanted)))
		return fd;
	close(fd);
	return -1;
}

/* ROOT/.build-id/12/3456.debug */
static int try_id(const struct wanted *wanted, char *path, size_t path_bytes)
{
	size_t used = (size_t)snprintf(path, path_bytes, "%s/.build-id/", ROOT);

	if (wanted->id_bytes < 2 || wanted->id_bytes > 64)
		return -1;
	for (int i = 0; i < wanted->id_bytes; i++)
		used += (size_t)snprintf(path + used, path_bytes - used, "%02x%s", wanted->id[i],
					 i ? "" : "/");
	snprintf(path + used, path_bytes - used, ".debug");
	return try_path(path, wanted);
}

/* For Dwfl_Callbacks.find_debuginfo. Returns a descriptor, with the name in *out_path for libdwfl
 * to free; -1: none. */
static int debuginfo_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **out_path)
{
	static const char *const folders[][2] = {{"", ""}, {"", "/.debug"}, {ROOT, ""}};
	struct wanted wanted = {.crc = crc};
	int folder = file ? (int)(mt_text_basename(file) - file) - 1 : -1, fd;
	char path[2 * PATH_MAX];
	GElf_Addr where;

	(void)userdata;
	(void)name;
	(void)base;
	if (!libdw.finds_debuginfo)
		return -1;
	wanted.id_bytes = libdw.dwfl_module_build_id(module, &wanted.id, &where);
	fd = try_id(&wanted, path, sizeof(path));
	for (size_t i = 0; fd < 0 && i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (folder < 0 || !link || strchr(link, '/'))
			break;
		snprintf(path, sizeof(path), "%s%.*s%s/%.255s", folders[i][0], folder, file,
			 folders[i][1], link);
		fd = try_path(path, &wanted);
	}
	if (fd >= 0)
		*out_path = mt_error_check_memory(strdup(path));
	return fd;
}

/* A mapping of a file. Mappings of one file share its base, and its module through the first of
 * them. */
struct mapping {
	uint64_t from, to, base;
	dev_t device;
	uint64_t inode;
	size_t first; /* index of the first mapping of the same file */
	char *path;
	bool deleted, opened, tried;
	/* of the first, once it is opened; -1: not readable */
	int fd;
	/* of the first: NULL until tried, and where the file cannot be read */
	Dwfl_Module *module;
};

/* __cxa_demangle of libstdc++, which is loaded as libdw is; NULL: C++ names stay as they are. The
 * buffer that it fills is from malloc(3). Source: the Itanium C++ ABI, chapter 3.4. */
typedef char *(*demangle_fn)(const char *mangled, char *buffer, size_t *bytes, int *status);

struct mt_symbols {
	pid_t pid;
	uint64_t library_start;
	/* it runs as the caller, and leads to no file that the caller may not read */
	bool own;
	demangle_fn demangle;
	Dwfl_Callbacks callbacks;
	bool started;
	Dwfl *dwfl; /* NULL: there is no libdw, and names are offsets */
	struct mapping *list;
	size_t count;
	/* the program's own file, and the name by which it runs; "": that of the file */
	char exe[PATH_MAX], exe_name[64];
};

/* ---- maps ---- */

/* maps writes a newline in a path as \012, and escapes nothing else: a file with these four
 * characters in its name is mistaken for the other. */
static void undo_newlines(char *path)
{
	char *to = path;

	for (const char *at = path; *at;) {
		bool is_newline = strncmp(at, "\\012", 4) == 0;

		*to++ = is_newline ? '\n' : *at;
		at += is_newline ? 4 : 1;
	}
	*to = '\0';
}

/* line: of a file. */
static struct mapping mapping_of(const struct mt_maps_line *line)
{
	static const char deleted[] = " (deleted)";
	struct mapping mapping = {.from = line->start,
				  .to = line->end,
				  .base = line->start,
				  .device = line->device,
				  .inode = line->inode,
				  .path = line->name,
				  .deleted = mt_text_ends_with(line->name, deleted)};

	if (mapping.deleted)
		mapping.path[strlen(mapping.path) - strlen(deleted)] = '\0';
	undo_newlines(mapping.path);
	return mapping;
}

static void add(struct mt_symbols *symbols, struct mapping mapping)
{
	size_t at = symbols->count;
	const struct mapping *before;

	symbols->list =
		mt_error_check_memory(reallocarray(symbols->list, at + 1, sizeof(*symbols->list)));
	before = at ? &symbols->list[at - 1] : NULL;
	mapping.first = at;
	if (before && before->device == mapping.device && before->inode == mapping.inode &&
	    strcmp(before->path, mapping.path) == 0) {
		mapping.base = before->base;
		mapping.first = before->first;
	}
	mapping.path = mt_error_check_memory(strdup(mapping.path));
	symbols->list[at] = mapping;
	symbols->count++;
}

/* DEBUGINFOD_URLS is removed, so that no server is contacted. */
static void start_dwfl(struct mt_symbols *symbols)
{
	void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL),
	     *demangles = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
	bool whole = library != NULL;

	symbols->started = true;
	if (demangles)
		*(void **)(void *)&symbols->demangle = dlsym(demangles, "__cxa_demangle");
#define X(name) whole = whole && (*(void **)(void *)&libdw.name = dlsym(library, #name));
	FUNCTIONS(X)
#undef X
	if (!whole)
		return;
	libdw.finds_debuginfo = true;
#define X(name)                                                                                    \
	libdw.finds_debuginfo =                                                                    \
		libdw.finds_debuginfo && (*(void **)(void *)&libdw.name = dlsym(library, #name));
	DEBUGINFO_FUNCTIONS(X)
#undef X
	libdw.finds_debuginfo = libdw.finds_debuginfo && libdw.elf_version(EV_CURRENT) != EV_NONE;
	unsetenv("DEBUGINFOD_URLS");
	symbols->callbacks.find_elf = libdw.dwfl_linux_proc_find_elf;
	symbols->callbacks.find_debuginfo = debuginfo_find;
	symbols->dwfl = libdw.dwfl_begin(&symbols->callbacks);
}

/* One file may have several names, and a program's file is mapped by the first of them:
 * redis-server is a link to redis-check-rdb. The name in the command line, or comm, counts if it
 * is a name of the same file in the same folder. A shorter form of the file's name says less:
 * python3. */
static bool is_other_name(const struct mt_symbols *symbols, const char *name)
{
	const char *file = mt_text_basename(symbols->exe);
	char link[PATH_MAX + 160], exe[64];
	struct stat linked, run;

	if (!*name || strncmp(file, name, strlen(name)) == 0)
		return false;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)symbols->pid);
	snprintf(link, sizeof(link), "/proc/%d/root%.*s%.80s", (int)symbols->pid,
		 (int)(file - symbols->exe), symbols->exe, name);
	return stat(link, &linked) == 0 && stat(exe, &run) == 0 && linked.st_dev == run.st_dev &&
	       linked.st_ino == run.st_ino;
}

static void find_exe_name(const struct mt_process *process, struct mt_symbols *symbols)
{
	char path[64], word[sizeof(process->command)];
	const char *name;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	length = readlink(path, symbols->exe, sizeof(symbols->exe) - 1);
	if (length < 1)
		return;
	symbols->exe[length] = '\0';
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(process->command, " "), process->command);
	name = mt_text_basename(word);
	if (!is_other_name(symbols, name))
		name = process->comm;
	if (is_other_name(symbols, name))
		snprintf(symbols->exe_name, sizeof(symbols->exe_name), "%s", name);
}

enum mt_err mt_symbols_new(const struct mt_process *process, struct mt_symbols **out,
			   struct mt_error_reason *why)
{
	char *maps = mt_process_maps(process->pid), *rest = maps;
	struct mt_symbols *symbols;
	struct mt_maps_line line;

	if (!maps)
		return mt_error_because(why, MT_ERR_FOREIGN, "its maps cannot be read: %s",
					strerror(errno));
	symbols = mt_error_check_memory(calloc(1, sizeof(*symbols)));
	symbols->pid = process->pid;
	symbols->library_start = process->library_start;
	symbols->own = process->uid == geteuid();
	find_exe_name(process, symbols);
	while (mt_maps_next(&rest, &line))
		if (*line.name == '/')
			add(symbols, mapping_of(&line));
	free(maps);
	*out = symbols;
	return MT_ERR_OK;
}

void mt_symbols_free(struct mt_symbols *symbols)
{
	if (!symbols)
		return;
	if (symbols->dwfl)
		libdw.dwfl_end(symbols->dwfl);
	for (size_t i = 0; i < symbols->count; i++) {
		const struct mapping *mapping = &symbols->list[i];

		if (mapping->opened && mapping->fd >= 0 && !mapping->module)
			close(mapping->fd);
		free(mapping->path);
	}
	free(symbols->list);
	free(symbols);
}

static struct mapping *find(const struct mt_symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address < symbols->list[middle].from)
			high = middle;
		else if (address >= symbols->list[middle].to)
			low = middle + 1;
		else
			return &symbols->list[middle];
	}
	return NULL;
}

/* ---- names ---- */

/* map_files leads to the mapped file itself, also if it is deleted or replaced, but needs
 * CAP_SYS_ADMIN. Otherwise the file is opened by its path below the process's root, if another
 * file may be by now. */
static int open_file(const struct mt_symbols *symbols, const struct mapping *mapping)
{
	char path[PATH_MAX + 64];
	struct stat seen;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)symbols->pid,
		 mapping->from, mapping->to);
	fd = mt_read_file_open(path);
	if (fd >= 0 || mapping->deleted)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/root%.4095s", (int)symbols->pid, mapping->path);
	fd = mt_read_file_open(path);
	/* Whether the file is the mapped one. On btrfs and overlayfs, maps and stat(2) have
	 * different devices: for a process of the own user this is not checked, so that names are
	 * not lost. */
	if (fd < 0 || symbols->own ||
	    (fstat(fd, &seen) == 0 && seen.st_dev == mapping->device &&
	     seen.st_ino == mapping->inode))
		return fd;
	close(fd);
	return -1;
}

static int opened_file(const struct mt_symbols *symbols, struct mapping *first)
{
	if (!first->opened)
		first->fd = open_file(symbols, first);
	first->opened = true;
	return first->fd;
}

/* Loads libdw and opens the files of these addresses now, for a caller that will lose its rights.
 */
static void symbols_open(struct mt_symbols *symbols, const uint64_t *return_addresses, size_t count)
{
	if (!symbols->started)
		start_dwfl(symbols);
	for (size_t i = 0; i < count; i++) {
		const struct mapping *mapping =
			find(symbols, return_addresses[i] ? return_addresses[i] - 1 : 0);

		if (mapping)
			(void)opened_file(symbols, &symbols->list[mapping->first]);
	}
}

static Dwfl_Module *module_of(struct mt_symbols *symbols, struct mapping *first)
{
	int fd;

	if (!symbols->started)
		start_dwfl(symbols);
	if (first->tried || !symbols->dwfl)
		return first->module;
	first->tried = true;
	fd = opened_file(symbols, first);
	if (fd < 0)
		return NULL;
	libdw.dwfl_report_begin_add(symbols->dwfl);
	first->module = libdw.dwfl_report_elf(symbols->dwfl, mt_text_basename(first->path),
					      first->path, fd, first->base, false);
	(void)libdw.dwfl_report_end(symbols->dwfl, NULL, NULL);
	if (!first->module) {
		close(fd);
		first->fd = -1;
	}
	return first->module;
}

/* " at leak.c:12"; "": no line table */
static void write_line(Dwfl_Module *module, uint64_t address, char *out, size_t out_bytes)
{
	Dwfl_Line *line = libdw.dwfl_module_getsrc(module, address);
	int number = 0;
	const char *file = line ? libdw.dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;

	out[0] = '\0';
	if (file && number > 0)
		snprintf(out, out_bytes, " at %.120s:%d", mt_text_basename(file), number);
}

static const char *module_name(const struct mt_symbols *symbols, const struct mapping *mapping)
{
	return *symbols->exe_name && strcmp(mapping->path, symbols->exe) == 0
		       ? symbols->exe_name
		       : mt_text_basename(mapping->path);
}

static void write_offset(const struct mt_symbols *symbols, const struct mapping *mapping,
			 uint64_t return_address, char *out, size_t out_bytes)
{
	if (mapping)
		snprintf(out, out_bytes, "0x%" PRIx64 " in %.120s", return_address - mapping->base,
			 module_name(symbols, mapping));
	else
		snprintf(out, out_bytes, "0x%" PRIx64, return_address);
}

static char *keep_clean(char *text, size_t bytes)
{
	mt_text_clean(text, bytes);
	return mt_error_check_memory(strdup(text));
}

char *mt_symbols_offset(const struct mt_symbols *symbols, uint64_t return_address)
{
	char text[MT_SYMBOLS_NAME_BYTES];

	write_offset(symbols, find(symbols, return_address ? return_address - 1 : 0),
		     return_address, text, sizeof(text));
	return keep_clean(text, sizeof(text));
}

/* Returns the readable name of a C++ function, which the caller frees; NULL: it is none. */
static char *demangled(const struct mt_symbols *symbols, const char *name)
{
	int status = 0;

	if (!name || strncmp(name, "_Z", 2) != 0 || !symbols->demangle)
		return NULL;
	return symbols->demangle(name, NULL, NULL, &status);
}

char *mt_symbols_name(struct mt_symbols *symbols, uint64_t return_address)
{
	/* within the call, not after it */
	uint64_t address = return_address ? return_address - 1 : 0;
	const struct mapping *mapping = find(symbols, address);
	char text[MT_SYMBOLS_NAME_BYTES], line[160] = "";
	Dwfl_Module *module = mapping ? module_of(symbols, &symbols->list[mapping->first]) : NULL;
	const char *symbol = module ? libdw.dwfl_module_addrname(module, address) : NULL;
	char *readable = demangled(symbols, symbol);
	const char *name = readable ? readable : symbol;

	if (name)
		write_line(module, address, line, sizeof(line));
	if (name && *line)
		snprintf(text, sizeof(text), "%.220s%s", name, line);
	else if (name)
		snprintf(text, sizeof(text), "%.220s in %.120s", name,
			 module_name(symbols, mapping));
	else
		write_offset(symbols, mapping, return_address, text, sizeof(text));
	free(readable);
	return keep_clean(text, sizeof(text));
}

/* Whether both return addresses lie in mappings of one file. */
static bool symbols_same_file(const struct mt_symbols *symbols, uint64_t one, uint64_t other)
{
	const struct mapping *left = find(symbols, one ? one - 1 : 0),
			     *right = find(symbols, other ? other - 1 : 0);

	return left && right && left->first == right->first;
}

bool mt_symbols_is_shim(const struct mt_symbols *symbols, uint64_t return_address)
{
	const struct mapping *mapping = find(symbols, return_address ? return_address - 1 : 0);

	return (mapping && strcmp(mt_text_basename(mapping->path), MT_SHIM_NAME) == 0) ||
	       symbols_same_file(symbols, return_address, symbols->library_start + 1);
}

/* ---- symbolizer ---- */

#define NOBODY_ID   65534
#define SECONDS_MAX 10u
/* more call sites than any program has; further addresses get offsets */
#define NAMES_MAX ((size_t)1 << 18)
/* of address space: a larger file is read in pieces, not mapped */
#define BYTES_MAX ((rlim_t)1 << 30)

#ifndef SYS_open
#define SYS_open 0xffffffffu /* newer architectures only have openat */
#endif

/* ---- the child ---- */

/* Files make libdw open more files, by any name (.gnu_debugaltlink, DW_AT_dwo_name), and opening a
 * FIFO blocks. A seccomp filter allows only our own opens, which use O_NONBLOCK or O_PATH and check
 * the file. Without seccomp only the time is bounded. */
static void restrict_opens(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat2, 6, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		/* openat's flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		/* open's flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_NONBLOCK | O_PATH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	};
	static const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The kernel kills this child first if memory is short. Any process may raise its own
 * oom_score_adj. */
static void prefer_oom_kill(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* Returns false if rights could not be dropped: then nothing may be read. The kernel makes a
 * process undumpable that changes its user, so that other processes of nobody cannot trace it. */
static bool drop_rights(void)
{
	const struct rlimit seconds = {SECONDS_MAX, SECONDS_MAX}, bytes = {BYTES_MAX, BYTES_MAX},
			    core = {0, 0};

	(void)setrlimit(RLIMIT_CPU, &seconds);
	(void)setrlimit(RLIMIT_AS, &bytes);
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return false;
	restrict_opens();
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 && setresgid(NOBODY_ID, NOBODY_ID, NOBODY_ID) == 0 &&
		setresuid(NOBODY_ID, NOBODY_ID, NOBODY_ID) == 0);
}

struct job {
	struct mt_symbols *symbols;
	const uint64_t *addresses;
	size_t count;
};

/* Writes each name at once: a later file may end the child. */
static void work(const void *argument, int to)
{
	const struct job *job = argument;

	prefer_oom_kill();
	symbols_open(job->symbols, job->addresses, job->count);
	if (!drop_rights())
		_exit(1);
	for (size_t i = 0; i < job->count; i++) {
		char *text = mt_symbols_name(job->symbols, job->addresses[i]);

		mt_watchdog_write(to, text, strlen(text) + 1);
		free(text);
	}
}

/* ---- the parent ---- */

/* Splits the text at its NULs. Returns how many texts there are. */
static size_t split(const char *read, size_t bytes, char **texts, size_t count)
{
	const char *at = read, *end;
	size_t i = 0;

	for (; i < count && (end = memchr(at, '\0', bytes - (size_t)(at - read)));
	     i++, at = end + 1) {
		texts[i] = mt_error_check_memory(strdup(at));
		mt_text_clean(texts[i], strlen(at) + 1);
	}
	return i;
}

/* Names addresses by one child. Returns how many of the first ones have a text. */
static size_t fill_by_child(const struct job *job, char **texts, uint64_t end_ns)
{
	const unsigned left_ms = (unsigned)(mt_sat_sub(end_ns, mt_clock_now_ns()) / 1000000u) + 1;
	const struct mt_watchdog watchdog = {.work = work,
					     .argument = job,
					     .max_bytes = job->count * MT_SYMBOLS_NAME_BYTES + 1,
					     .max_ms = left_ms,
					     .wait_ms = left_ms};
	struct mt_watchdog_end end;
	size_t length, done;
	char *read = mt_watchdog_run(&watchdog, &length, &end);

	done = split(read, length, texts, job->count);
	free(read);
	return done;
}

/* A child that ends early failed on one file: the next child starts after that file. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts)
{
	size_t asked = count < NAMES_MAX ? count : NAMES_MAX, at = 0, bad;
	uint64_t end_ns = mt_clock_now_ns() + SECONDS_MAX * UINT64_C(1000000000);

	while (at < asked && mt_clock_now_ns() < end_ns) {
		const struct job job = {symbols, addresses + at, asked - at};

		at += fill_by_child(&job, texts + at, end_ns);
		for (bad = at; at < asked && (at == bad || symbols_same_file(symbols, addresses[at],
									     addresses[bad]));)
			at++;
	}
	for (size_t i = 0; i < count; i++)
		if (!texts[i])
			texts[i] = mt_symbols_offset(symbols, addresses[i]);
}

/* ---- lines of files ---- */

#define FILE_BITS 40 /* of a place; each file has its own range of addresses */

/* Adds the file of a place. Returns its address there; 0: the text is no place, or its file is not
 * the one of then. */
static uint64_t add_place(struct mt_symbols *symbols, const char *text, time_t seen)
{
	const uint64_t from = (uint64_t)(symbols->count + 1) << FILE_BITS;
	const char *plus = strrchr(text, '+');
	char path[PATH_MAX];
	struct stat file;
	uint64_t offset;

	if (*text != '/' || !plus || strncmp(plus, "+0x", 3) != 0 ||
	    (size_t)(plus - text) >= sizeof(path))
		return 0;
	offset = strtoull(plus + 1, NULL, 16);
	snprintf(path, sizeof(path), "%.*s", (int)(plus - text), text);
	if (offset >> FILE_BITS || stat(path, &file) != 0 || !S_ISREG(file.st_mode) ||
	    file.st_mtime > seen || file.st_ctime > seen)
		return 0;
	add(symbols, (struct mapping){.from = from,
				      .to = from + (UINT64_C(1) << FILE_BITS),
				      .device = file.st_dev,
				      .inode = file.st_ino,
				      .path = path});
	/* Its own range, though the file may be that of the place before. */
	symbols->list[symbols->count - 1].first = symbols->count - 1;
	symbols->list[symbols->count - 1].base = from;
	return from + offset;
}

void mt_symbols_name_call_sites(char **texts, size_t count, time_t seen)
{
	struct mt_symbols *symbols = mt_error_check_memory(calloc(1, sizeof(*symbols)));
	uint64_t *addresses = mt_error_check_memory(calloc(count + 1, sizeof(*addresses)));
	char **names = mt_error_check_memory(calloc(count + 1, sizeof(*names)));
	char ***named = mt_error_check_memory(calloc(count + 1, sizeof(*named)));
	size_t asked = 0;

	symbols->pid = getpid();
	symbols->own = true; /* its root is that of the paths */
	for (size_t i = 0; i < count; i++)
		if ((addresses[asked] = add_place(symbols, texts[i], seen)))
			named[asked++] = &texts[i];
	mt_symbolizer_fill(symbols, addresses, asked, names);
	for (size_t i = 0; i < asked; i++) {
		bool is_name = strncmp(names[i], "0x", 2) != 0;

		free(is_name ? *named[i] : names[i]);
		if (is_name)
			*named[i] = names[i];
	}
	free(named);
	free(names);
	free(addresses);
	mt_symbols_free(symbols);
}
