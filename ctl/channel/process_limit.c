#include "ctl/channel/target.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/text.h"

void mt_process_limit_given(const struct mt_process *process, const struct mt_stats_file *file,
			    char *out, size_t out_bytes)
{
	const char *directory = file ? mt_stats_file_setting(file, "cgroup") : NULL;
	size_t length = directory ? strlen(directory) : 0;

	if ((!file || length + 1 == sizeof(file->settings[0].value)) &&
	    mt_process_environ(process->pid, "MT_CGROUP", out, out_bytes) &&
	    strncmp(out, directory ? directory : "", length) == 0)
		return;
	snprintf(out, out_bytes, "%s", directory ? directory : "");
}

enum mt_err mt_limit_find_given(const struct mt_process *process, const char *directory,
				uint64_t limit_mb, struct mt_limit *out)
{
	struct mt_limit_request request = {
		.root = "", .directory = directory, .limit_mb = limit_mb};
	char root[64];

	if (mt_limit_find_by(&request, out) == MT_ERR_OK)
		return MT_ERR_OK;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process->pid);
	request.root = root;
	return mt_limit_find_by(&request, out);
}

/* MT_LIMIT_MB of the process; 0: none, or not valid. */
static uint64_t limit_mb_of(const struct mt_process *process, const struct mt_stats_file *file)
{
	char text[32];
	uint64_t mb;

	if (file)
		return mt_stats_file_number(file, "limit_mb");
	return mt_process_environ(process->pid, "MT_LIMIT_MB", text, sizeof(text)) &&
			       mt_text_parse_u64(text, &mb)
		       ? mb
		       : 0;
}

/* "/sys/fs/cgroup/a/memory.max" is a limit of /sys/fs/cgroup/a. */
static bool directory_of(const char *source, char *out, size_t out_bytes)
{
	const char *file = strstr(source, "/memory.");

	if (*source != '/' || !file)
		return false;
	snprintf(out, out_bytes, "%.*s", (int)(file - source), source);
	return true;
}

bool mt_process_limit_directory(const struct mt_process *process, const struct mt_stats_file *file,
				const struct mt_limit *limit, char *out, size_t out_bytes)
{
	uint64_t used;

	if (limit && directory_of(limit->source, out, out_bytes) &&
	    mt_limit_used_in("", out, &used))
		return true;
	mt_process_limit_given(process, file, out, out_bytes);
	if (*out && mt_limit_used_in("", out, &used))
		return true;
	return mt_limit_memory_directory("", process->pid, out, out_bytes);
}

/* MT_LIMIT_MB limits the cgroup of the process, or the machine if there is none, as in the shim.
 */
static uint64_t used_now(const struct mt_process *process, const struct mt_stats_file *file,
			 const struct mt_limit *limit)
{
	char directory[PATH_MAX], root[64];
	uint64_t used;

	if (strcmp(limit->source, "/proc/meminfo") == 0)
		return mt_limit_machine_used("");
	snprintf(root, sizeof(root), "/proc/%d/root", (int)process->pid);
	if (directory_of(limit->source, directory, sizeof(directory)))
		return mt_limit_used_in("", directory, &used) ||
				       mt_limit_used_in(root, directory, &used)
			       ? used
			       : limit->used_bytes;
	return mt_process_limit_directory(process, file, NULL, directory, sizeof(directory)) &&
			       mt_limit_used_in("", directory, &used)
		       ? used
		       : limit->used_bytes;
}

/* The published path is cut if the cgroup is deep. The kernel then gives the path, if the limit
 * there is the same. */
static void use_published(const struct mt_process *process, const struct mt_stats_file *file,
			  struct mt_limit *out)
{
	const struct mt_stats_snapshot *now = &file->head.snapshot;
	const char *source = *file->head.limit_source ? file->head.limit_source : "?";
	bool is_cut = strlen(source) + 1 == sizeof(file->head.limit_source);

	if (is_cut && mt_limit_find("", process->pid, out) == MT_ERR_OK && out->is_cgroup &&
	    out->limit_bytes == now->pressure_limit_bytes)
		return;
	*out = (struct mt_limit){.used_bytes = now->pressure_used_bytes,
				 .limit_bytes = now->pressure_limit_bytes};
	snprintf(out->source, sizeof(out->source), "%s", source);
	out->is_cgroup = is_cut || strstr(source, "/memory.") != NULL;
	out->used_bytes = used_now(process, file, out);
}

enum mt_err mt_process_limit_find(const struct mt_process *process,
				  const struct mt_stats_file *file, struct mt_limit *out)
{
	char given[PATH_MAX];
	uint64_t limit_mb;

	if (file && file->head.snapshot.pressure_limit_bytes) {
		use_published(process, file, out);
		return MT_ERR_OK;
	}
	limit_mb = limit_mb_of(process, file);
	mt_process_limit_given(process, file, given, sizeof(given));
	if (*given && mt_limit_find_given(process, given, limit_mb, out) == MT_ERR_OK)
		return MT_ERR_OK;
	return mt_limit_find_by(
		&(struct mt_limit_request){.root = "", .pid = process->pid, .limit_mb = limit_mb},
		out);
}
