#include "pressure/psi.h"

#include <string.h>
#include <sys/stat.h>

#include "sys/os.h"
#include "core/cgroup_path.h"
#include "sys/format.h"

#define PSI_BYTES 512 /* two lines of some 70 bytes */

/* the file of the last total; "": none yet */
static char last_path[2 * MT_CGROUP_PATH_BYTES];

bool mt_psi_parse(const char *text, const char *line, uint64_t *out_us)
{
	static const char key[] = " total=";
	size_t length = strlen(line);
	char number[32];
	const char *at;

	while (text && (strncmp(text, line, length) != 0 || text[length] != ' ')) {
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	at = text ? strstr(text, key) : NULL;
	if (!at || memchr(text, '\n', (size_t)(at - text)))
		return false;
	at += sizeof(key) - 1;
	(void)mt_format(number, sizeof(number), "%.*s", (int)strcspn(at, " \n"), at);
	return mt_cgroup_path_number(number, out_us);
}

/* Opens only regular files: to open a device may start it. */
static bool read_total(const char *path, uint64_t *out_us)
{
	char text[PSI_BYTES];
	struct stat seen;

	return mt_os_stat(path, &seen) == 0 && S_ISREG(seen.st_mode) &&
	       mt_os_read_file(path, text, sizeof(text)) > 0 && mt_psi_parse(text, "some", out_us);
}

/* The root of all cgroups tells of the whole machine; it alone lacks these files. */
static bool is_root(const char *group)
{
	char path[sizeof(last_path)];
	struct stat seen;

	(void)mt_format(path, sizeof(path), "%s/cgroup.events", group);
	if (mt_os_stat(path, &seen) == 0)
		return false;
	(void)mt_format(path, sizeof(path), "%s/memory.current", group);
	return mt_os_stat(path, &seen) != 0;
}

/* Writes the path of the first file with a total. */
static bool find_total(const char *root, const char *group, const char *watched,
		       char path[sizeof(last_path)], struct mt_psi_sample *out)
{
	(void)mt_format(path, sizeof(last_path), "%s%s", root, watched);
	out->is_own = watched[0] == '/' && read_total(path, &out->some_us);
	if (out->is_own)
		return true;
	(void)mt_format(path, sizeof(last_path), "%s/memory.pressure", group);
	if (*group && read_total(path, &out->some_us)) {
		out->is_own = !is_root(group);
		return true;
	}
	(void)mt_format(path, sizeof(last_path), "%s/proc/pressure/memory", root);
	return read_total(path, &out->some_us);
}

void mt_psi_read(const char *root, const char *group, const char *watched,
		 struct mt_psi_sample *out)
{
	char path[sizeof(last_path)];

	memset(out, 0, sizeof(*out));
	if (!find_total(root, group, watched, path, out))
		return;
	/* The total of another file than the last one says nothing about the time between. */
	out->known = !last_path[0] || strcmp(path, last_path) == 0;
	(void)mt_format(last_path, sizeof(last_path), "%s", path);
}

void mt_psi_fork_child(void)
{
	last_path[0] = 0;
}
