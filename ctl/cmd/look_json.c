/* ctl/cmd/look_json.c -- `mtctl look --json`. Names of values end with their unit; what is not
 * known or has no limit is null. */
#include <limits.h>
#include <stdio.h>

#include "ctl/cmd/look.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"
#include "ctl/process/preload.h"

static json_t *parts_json(const struct mt_look *look)
{
	json_t *object = json_object();

#define X(name, label) mt_json_set_u64(object, #name "_bytes", look->name##_bytes);
	MT_LOOK_PARTS(X)
#undef X
	return object;
}

static json_t *allocator_json(const struct mt_look *look)
{
	static const char *const words[] = {"unknown", "library", "program", "libc", "static"};
	json_t *object = json_object();

	mt_json_set_text_or_null(object, "name", look->allocator);
	mt_json_set_text_or_null(object, "file", look->allocator_file);
	mt_json_set_text(object, "found_by", words[look->how]);
	mt_json_set_u64(object, "arena_heaps_count", look->arena_heaps_count);
	return object;
}

static json_t *python_json(const struct mt_look *look)
{
	json_t *object;

	if (!look->is_python)
		return json_null();
	object = json_object();
	mt_json_set_text_or_null(object, "version", look->python_version);
	mt_json_set_text_or_null(object, "pythonmalloc", look->python_malloc);
	mt_json_set_u64_if(object, "pools_bytes", look->arenas_known, look->arenas.pools_bytes);
	mt_json_set_u64_if(object, "live_bytes", look->arenas_known, look->arenas.live_bytes);
	return object;
}

static json_t *limit_json(const struct mt_look *look)
{
	json_t *object;

	if (!look->limit_known)
		return json_null();
	object = json_object();
	mt_json_set_u64(object, "used_bytes", look->limit.used_bytes);
	mt_json_set_u64(object, "limit_bytes", look->limit.limit_bytes);
	mt_json_set_bool(object, "is_cgroup", look->limit.is_cgroup);
	mt_json_set_text_or_null(object, "source", look->limit.source);
	return object;
}

static json_t *rlimits_json(const struct mt_look_rlimits *rlimits)
{
	json_t *object = json_object();

#define X(name, word)                                                                              \
	mt_json_set_u64_if(object, #name "_bytes", rlimits->name##_bytes != UINT64_MAX,            \
			   rlimits->name##_bytes);
	MT_LOOK_RLIMITS(X)
#undef X
	return object;
}

static json_t *trim_json(const struct mt_look *look)
{
	struct mt_look_trim trim;
	json_t *object = json_object();

	mt_look_judge_trim(look, &trim);
	mt_json_set_u64_if(object, "most_bytes", trim.is_glibc, trim.most_bytes);
	mt_json_set_text(object, "text", trim.text);
	return object;
}

static json_t *start_json(const struct mt_look *look)
{
	const char *obstacle = mt_look_obstacle(look);
	char library[PATH_MAX];
	struct mt_error_reason why;
	bool found = mt_preload_find(library, sizeof(library), &why) == MT_ERR_OK;
	json_t *object = json_object();

	mt_text_clean(library, sizeof(library));
	mt_json_set_text_or_null(object, "command", look->command);
	mt_json_set_bool(object, "command_is_cut", look->is_command_cut);
	mt_json_set_text_or_null(object, "library", found ? library : "");
	mt_json_set_text_or_null(object, "obstacle", obstacle ? obstacle : "");
	mt_json_set_text_or_null(object, "systemd_unit", look->unit);
	mt_json_set_text_or_null(object, "container", look->container);
	return object;
}

void mt_look_print_json(const struct mt_look *look)
{
	json_t *root = json_object();

	mt_json_set_u64(root, "pid", (uint64_t)look->process.pid);
	mt_json_set_text(root, "comm", look->process.comm);
	mt_json_set_text(root, "user", look->user);
	mt_json_set_bool(root, "shimmed", look->process.shimmed);
	mt_json_set_u64(root, "threads_count", look->threads_count);
	mt_json_set_u64(root, "rss_bytes", look->total.rss_bytes);
	mt_json_set_u64(root, "rss_peak_bytes", look->rss_peak_bytes);
	mt_json_set_u64(root, "anon_bytes", look->anon_bytes);
	mt_json_set_u64(root, "swap_bytes", look->total.swap_bytes);
	mt_json_set_u64(root, "huge_bytes", look->total.huge_bytes);
	mt_json_set_u64(root, "locked_bytes", look->total.locked_bytes);
	mt_json_set(root, "parts", parts_json(look));
	mt_json_set(root, "allocator", allocator_json(look));
	mt_json_set(root, "python", python_json(look));
	mt_json_set_bool(root, "is_go", look->is_go);
	mt_json_set(root, "limit", limit_json(look));
	mt_json_set(root, "rlimits", rlimits_json(&look->rlimits));
	mt_json_set(root, "trim", trim_json(look));
	mt_json_set(root, "start", start_json(look));
	mt_json_print(root, true);
}
