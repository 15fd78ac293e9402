/* ctl/report/environment.c -- where the process runs: its command line, versions, limits, machine,
 * and those variables of its environment that set an allocator, Python or the library. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ctl/figures/setting.h"
#include "ctl/output/text.h"
#include "ctl/report/report.h"

/* Of others. Each is here by its whole name: a prefix would let secrets through. */
static const char *const variables[] = {
	"MTSHIM_LIBRARY",
	"LD_PRELOAD",
	"GLIBC_TUNABLES",
	"MALLOC_ARENA_MAX",
	"MALLOC_ARENA_TEST",
	"MALLOC_CHECK_",
	"MALLOC_CONF",
	"MALLOC_MMAP_MAX_",
	"MALLOC_MMAP_THRESHOLD_",
	"MALLOC_PERTURB_",
	"MALLOC_TOP_PAD_",
	"MALLOC_TRIM_THRESHOLD_",
	"_RJEM_MALLOC_CONF",
	"MIMALLOC_PURGE_DELAY",
	"MIMALLOC_ALLOW_LARGE_OS_PAGES",
	"TCMALLOC_RELEASE_RATE",
	"ARROW_DEFAULT_MEMORY_POOL",
	"USE_ZEND_ALLOC",
	"PYTHONMALLOC",
	"PYTHONMALLOCSTATS",
	"PYTHONDEVMODE",
	"PYTHONTRACEMALLOC",
	"PYTHON_GIL",
	"PYTORCH_ALLOC_CONF",
	"PYTORCH_CUDA_ALLOC_CONF",
	"PYTORCH_NO_CUDA_MEMORY_CACHING",
	"CUDA_VISIBLE_DEVICES",
	"OMP_NUM_THREADS",
	"MKL_NUM_THREADS",
	"WORLD_SIZE",
	"RANK",
	"LOCAL_RANK",
};

static void write_row(FILE *to, const char *label, const char *text)
{
	if (*text)
		mt_html_row(to, "k|", label, text);
}

__attribute__((format(printf, 3, 4))) static void write_rowf(FILE *to, const char *label,
							     const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	write_row(to, label, text);
}

/* ---- the process ---- */

static void write_command(const struct mt_report *report, FILE *to)
{
	const struct mt_recording_process *root =
		mt_recording_process(report->recording, report->recording->pid);
	const char *command = report->look && *report->look->command ? report->look->command
			      : root                                 ? root->command
								     : "";

	if (!*command)
		return;
	fputs("<tr><td class=\"k\">command line</td><td class=\"code\">", to);
	mt_html_textf(to, "%s%s", command,
		      report->look && report->look->is_command_cut ? " ... (cut)" : "");
	fputs("</td></tr>\n", to);
}

static void add_rlimit(const char *word, uint64_t bytes, char *out, size_t out_bytes)
{
	size_t used = strlen(out);

	if (bytes != UINT64_MAX)
		snprintf(out + used, out_bytes - used, "%s%s %s", used ? ", " : "", word,
			 mt_text_bytes(bytes).text);
}

static void write_look(const struct mt_look *look, FILE *to)
{
	char text[320];

	write_rowf(to, "user, threads", "%s, %" PRIu64, look->user, look->threads_count);
	write_row(to, "service", look->unit);
	write_row(to, "container", look->container);
	if (look->total.swap_bytes)
		write_row(to, "swapped out", mt_text_bytes(look->total.swap_bytes).text);
	if (look->total.huge_bytes)
		write_row(to, "in huge pages", mt_text_bytes(look->total.huge_bytes).text);
	*text = '\0';
#define X(name, word) add_rlimit(word, look->rlimits.name##_bytes, text, sizeof(text));
	MT_LOOK_RLIMITS(X)
#undef X
	write_row(to, "ulimits", text);
}

/* What the recording has of the limit; the process may have ended. */
static void write_recorded_limit(const json_t *root, FILE *to)
{
	json_int_t bytes = json_integer_value(json_object_get(root, "limit_bytes"));

	if (bytes <= 0) /* of `stat --json` */
		bytes = json_integer_value(json_object_get(root, "pressure_limit_bytes"));
	if (bytes > 0)
		write_rowf(to, "limit", "%s: %s", mt_text_bytes((uint64_t)bytes).text,
			   mt_report_member(root, "limit_source"));
}

static void write_limit(const struct mt_facts *facts, FILE *to)
{
	const struct mt_diagnose_group *group = &facts->group;

	if (facts->limit_known && facts->limit.limit_bytes)
		write_rowf(to, "limit", "%s, %.1f %% of it used: %s",
			   mt_text_bytes(facts->limit.limit_bytes).text,
			   mt_limit_percent(&facts->limit),
			   facts->limit.is_cgroup ? facts->limit.source : "the whole machine");
	if (group->known)
		write_rowf(to, "cgroup",
			   "%s: %s used, %s anonymous, %s of files; %" PRIu64
			   " killed for memory, limit reached %" PRIu64 " times",
			   group->directory, mt_text_bytes(group->usage_bytes).text,
			   mt_text_bytes(group->anon_bytes).text,
			   mt_text_bytes(group->file_bytes).text, group->oom_kill_count,
			   group->max_count);
}

static void write_programs(const struct mt_report *report, FILE *to)
{
	const json_t *root = report->recording->root, *header = report->recording->header;
	const char *python = report->look ? report->runtime.python
					  : mt_report_member(root, "python_version"),
		   *libc = report->look ? report->runtime.libc
					: mt_report_member(root, "libc_version"),
		   *recorder = mt_report_member(header, "mtctl_version");

	write_row(to, "Python", python);
	write_row(to, "libc", libc);
	if (*mt_report_member(root, "allocator"))
		write_rowf(to, "allocator", "%s, mode %s%s%s", mt_report_member(root, "allocator"),
			   mt_report_member(root, "mode"),
			   *mt_report_member(root, "evidence") ? ": " : "",
			   mt_report_member(root, "evidence"));
	write_row(to, "allocator's conf", mt_report_member(root, "conf"));
	write_row(to, "Python's objects", mt_report_member(root, "python"));
	write_row(to, "CUDA", mt_report_member(root, "cuda"));
	write_rowf(to, "library", "libmtshim.so %s%s",
		   *mt_report_member(root, "shim_version") ? mt_report_member(root, "shim_version")
							   : "not known",
		   report->look && report->look->process.library_deleted
			   ? ", replaced or removed since: restart the process"
			   : "");
	write_rowf(to, "mtctl", "%s%s%s", MT_VERSION, *recorder ? ", recorded by " : "", recorder);
}

/* ---- the machine ---- */

static void write_machine(const char *kernel, const char *machine, uint64_t cpus, uint64_t memory,
			  FILE *to)
{
	write_rowf(to, "kernel", "%s %s", kernel, machine);
	write_rowf(to, "machine", "%s, %s of memory", mt_text_counted(cpus, "CPU", "CPUs").text,
		   mt_text_bytes(memory).text);
}

static uint64_t number_of(const json_t *from, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(from, name));

	return value > 0 ? (uint64_t)value : 0;
}

static void write_this_machine(FILE *to)
{
	struct utsname machine;

	if (uname(&machine) != 0)
		return;
	write_machine(machine.release, machine.machine, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
		      (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), to);
}

/* ---- the environment ---- */

struct environ {
	char *list;
	size_t length;
	bool has_rows;
};

static void write_variable(struct environ *environ, const char *name, FILE *to)
{
	char value[512];

	if (!mt_process_find_variable(environ->list, environ->length, name, value, sizeof(value)))
		return;
	if (!environ->has_rows)
		fputs("<h3>Environment</h3>\n<table><tbody>\n", to);
	environ->has_rows = true;
	mt_html_row(to, "code|code", name, value);
}

static void write_variables(const struct mt_report *report, FILE *to)
{
	struct environ environ = {0};
	size_t count;
	const struct mt_setting *settings = mt_setting_all(&count);

	environ.list =
		mt_process_read_memory(report->look->process.pid, "environ", &environ.length);
	if (!environ.list) {
		fputs("<p class=\"note\">Its environment is not known.</p>\n", to);
		return;
	}
	for (size_t i = 0; i < count; i++)
		write_variable(&environ, settings[i].environment, to);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		write_variable(&environ, variables[i], to);
	if (environ.has_rows)
		fputs("</tbody></table>\n", to);
	free(environ.list);
}

void mt_report_environment(const struct mt_report *report, FILE *to)
{
	const json_t *header = report->recording->header;

	fputs("<section id=\"environment\">\n<h2>Where it runs</h2>\n<table><tbody>\n", to);
	write_command(report, to);
	if (report->look)
		write_look(report->look, to);
	if (report->facts->limit_known)
		write_limit(report->facts, to);
	else
		write_recorded_limit(report->recording->root, to);
	write_programs(report, to);
	if (report->look)
		write_this_machine(to);
	else if (header)
		write_machine(mt_report_member(header, "kernel"),
			      mt_report_member(header, "machine"), number_of(header, "cpus_count"),
			      number_of(header, "memory_bytes"), to);
	fputs("</tbody></table>\n", to);
	if (report->look)
		write_variables(report, to);
	fputs("</section>\n", to);
}

/* ---- settings ---- */

static bool is_default(const json_t *setting)
{
	return strcmp(mt_report_member(setting, "origin"), "default") == 0;
}

static void write_changed(const json_t *settings, FILE *to)
{
	const json_t *one;
	size_t i;

	mt_html_head(to, "|||more", "Setting", "Value", "Set by", "Default");
	json_array_foreach(settings, i, one)
	{
		/* MT_GC_ROUNDS; a name that this mtctl does not know is shown as it is. */
		const char *name = mt_report_member(one, "name");
		const struct mt_setting *setting = mt_setting_find(name);

		if (!is_default(one))
			mt_html_row(to, "code|code||code more",
				    setting ? setting->environment : name,
				    mt_report_member(one, "value"), mt_report_member(one, "origin"),
				    setting ? setting->initial : "");
	}
	fputs("</tbody></table>\n", to);
}

/* Many, and seldom of interest: as little room as can be. */
static void write_defaults(const json_t *settings, FILE *to)
{
	const json_t *one;
	size_t i;

	fputs("<h3>At their defaults</h3>\n<p class=\"flow code\">", to);
	json_array_foreach(settings, i, one)
	{
		const char *name = mt_report_member(one, "name");
		const struct mt_setting *setting = mt_setting_find(name);

		if (!is_default(one) || !*mt_report_member(one, "value"))
			continue;
		fputs("<span>", to);
		mt_html_textf(to, "%s=%s", setting ? setting->environment : name,
			      mt_report_member(one, "value"));
		fputs("</span>\n", to);
	}
	fputs("</p>\n", to);
}

void mt_report_settings(const struct mt_report *report, FILE *to)
{
	const json_t *settings = json_object_get(report->recording->root, "settings"), *one;
	size_t i, count = json_array_size(settings), changed = 0;

	if (!count)
		return;
	json_array_foreach(settings, i, one) changed += !is_default(one);
	fputs("<section id=\"settings\">\n<h2>Settings</h2>\n", to);
	if (changed)
		write_changed(settings, to);
	else
		fputs("<p class=\"note\">All are at their defaults.</p>\n", to);
	if (changed < count)
		write_defaults(settings, to);
	fputs("</section>\n", to);
}
