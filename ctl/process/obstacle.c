#include "ctl/process/obstacle.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "ctl/output/text.h"
#include "ctl/process/process.h"
#include "ctl/process/read_file.h"
#include "ctl/process/watchdog.h"

#define HEAD_BYTES      ((size_t)64 << 10)
#define READ_MAX_MS     2000u
#define INTERPRETER_MAX 256 /* of a script; as in the kernel (execve(2)) */
#define SCRIPTS_MAX     4   /* an interpreter that is a script itself; as in the kernel */

/* The head of mtctl's own file: the linker defines it. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

const char *mt_obstacle_text(enum mt_obstacle obstacle)
{
	static const char *const texts[] = {
#define X(name, text) text,
		MT_OBSTACLES(X)
#undef X
	};

	return texts[obstacle];
}

/* ---- the file ---- */

struct head {
	const char *bytes;
	size_t length;
	Elf64_Ehdr elf;
};

/* Returns `bytes` bytes of the file, NULL if they are not in its head. */
static const char *at(const struct head *head, uint64_t offset, uint64_t bytes)
{
	return offset <= head->length && bytes <= head->length - offset ? head->bytes + offset
									: NULL;
}

static bool find_segment(const struct head *head, uint32_t type, Elf64_Phdr *out)
{
	for (unsigned i = 0; i < head->elf.e_phnum; i++) {
		const char *from = at(head, head->elf.e_phoff + i * sizeof(*out), sizeof(*out));

		if (!from)
			return false;
		memcpy(out, from, sizeof(*out));
		if (out->p_type == type)
			return true;
	}
	return false;
}

static enum mt_obstacle obstacle_of_elf(const char *path, const struct head *head)
{
	/* the note that Go's linker writes near the start, of type 4 and with the owner "Go" */
	static const char go_note[] = "\4\0\0\0Go\0";
	char loader[PATH_MAX] = "";
	Elf64_Phdr segment;
	const char *from;

	if (head->elf.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
		return MT_OBSTACLE_CLASS;
	if (head->elf.e_machine != __ehdr_start.e_machine)
		return MT_OBSTACLE_MACHINE;
	if (find_segment(head, PT_INTERP, &segment)) {
		from = at(head, segment.p_offset, segment.p_filesz);
		snprintf(loader, sizeof(loader), "%.*s", from ? (int)segment.p_filesz : 0, from);
	} else if (!realpath(path, loader) || strncmp(mt_text_basename(loader), "ld-", 3) != 0) {
		/* a program that is the loader itself ("ld.so program") has no other one */
		return MT_OBSTACLE_STATIC;
	}
	if (strncmp(mt_text_basename(loader), "ld-musl", 7) == 0)
		return MT_OBSTACLE_MUSL;
	return memmem(head->bytes, head->length, go_note, sizeof(go_note)) ? MT_OBSTACLE_GO
									   : MT_OBSTACLE_NONE;
}

/* What sets AT_SECURE (ld.so(8)). */
static bool is_privileged(const char *path, uid_t uid, gid_t gid)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return false;
	return (file.st_mode & S_ISUID && file.st_uid != uid) ||
	       (file.st_mode & S_ISGID && file.st_mode & S_IXGRP && file.st_gid != gid) ||
	       (uid && getxattr(path, "security.capability", NULL, 0) > 0);
}

static enum mt_obstacle obstacle_of(const char *path, uid_t uid, gid_t gid, int depth)
{
	struct head head = {0};
	char *bytes = mt_read_file_first(path, HEAD_BYTES, &head.length);
	enum mt_obstacle found = MT_OBSTACLE_NONE;
	char interpreter[INTERPRETER_MAX];

	head.bytes = bytes;
	if (bytes && head.length >= sizeof(head.elf))
		memcpy(&head.elf, bytes, sizeof(head.elf));
	if (memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0)
		found = obstacle_of_elf(path, &head);
	else if (bytes && depth < SCRIPTS_MAX && sscanf(bytes, "#! %255s", interpreter) == 1)
		found = obstacle_of(interpreter, uid, gid, depth + 1);
	if (found == MT_OBSTACLE_NONE && !depth && is_privileged(path, uid, gid))
		found = MT_OBSTACLE_PRIVILEGED;
	free(bytes);
	return found;
}

enum mt_obstacle mt_obstacle_of_file(const char *path, uid_t uid, gid_t gid)
{
	return obstacle_of(path, uid, gid, 0);
}

static bool can_run(const char *path)
{
	struct stat file;

	return access(path, X_OK) == 0 && stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

bool mt_obstacle_find_command(const char *word, char *out, size_t out_bytes)
{
	const char *folders = getenv("PATH");

	if (strchr(word, '/')) {
		snprintf(out, out_bytes, "%s", word);
		return can_run(word);
	}
	for (folders = folders ? folders : "/bin:/usr/bin"; *folders;) {
		int length = (int)strcspn(folders, ":");

		snprintf(out, out_bytes, "%.*s/%s", length ? length : 1, length ? folders : ".",
			 word);
		if (can_run(out))
			return true;
		folders += length + (folders[length] == ':');
	}
	return false;
}

/* ---- the process ---- */

struct wanted {
	pid_t pid;
	uid_t uid;
};

/* A program whose real and effective user or group differ ignores LD_PRELOAD. */
static bool has_two_ids(const char *status, const char *key, unsigned *out_real)
{
	const char *line = status ? strstr(status, key) : NULL;
	unsigned effective;

	return line && sscanf(line + strlen(key), "%u %u", out_real, &effective) == 2 &&
	       *out_real != effective;
}

static void read_process(const void *argument, int to)
{
	const struct wanted *wanted = argument;
	char *status = mt_process_read(wanted->pid, "status", NULL), path[64];
	unsigned uid = wanted->uid, gid = 0;
	bool privileged = has_two_ids(status, "\nUid:", &uid) | has_two_ids(status, "\nGid:", &gid);
	enum mt_obstacle found;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)wanted->pid);
	found = mt_obstacle_of_file(path, uid, gid);
	if (found == MT_OBSTACLE_NONE && privileged)
		found = MT_OBSTACLE_PRIVILEGED;
	mt_watchdog_write(to, &found, sizeof(found));
	free(status);
}

enum mt_obstacle mt_obstacle_of_process(pid_t pid, uid_t uid)
{
	const struct wanted wanted = {pid, uid};
	enum mt_obstacle found = MT_OBSTACLE_NONE;

	(void)mt_watchdog_value(read_process, &wanted, READ_MAX_MS, &found, sizeof(found));
	return found;
}
