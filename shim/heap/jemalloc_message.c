#include "heap/jemalloc_message.h"

#include <stdbool.h>
#include <string.h>

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

#define LINE_BYTES 160

static const char *conf;
static bool begins;
static bool refuses_pages;
static char kept[8 * LINE_BYTES]; /* lines, each with its newline */
static size_t kept_bytes;

void mt_jemalloc_message_start(const char *given)
{
	conf = given;
	kept_bytes = 0;
	refuses_pages = false;
	begins = true;
}

/* jemalloc's words for a setting that it cannot take; all else is about what the kernel refused it.
 */
static bool is_about_settings(const char *line)
{
	return strstr(line, "onf ") || strstr(line, "narenas") ||
	       strstr(line, "invalid configuration");
}

static const char *about(const char *line)
{
	return is_about_settings(line) ? "MALLOC_CONF or MT_MALLOC_CONF: " : "";
}

/* On a machine of more than a thousand processors jemalloc rejects its own default. */
static bool is_own_choice(const char *line)
{
	return strstr(line, "narenas to limit") && !strstr(conf, "narenas:");
}

bool mt_jemalloc_message_refuses_pages(void)
{
	return refuses_pages;
}

/* jemalloc reads its settings twice, and says so twice. */
static void keep(const char *line)
{
	size_t length = strlen(line);

	kept[kept_bytes] = 0;
	if (strstr(kept, line) || kept_bytes + length + 2 > sizeof(kept))
		return;
	memcpy(kept + kept_bytes, line, length);
	kept[kept_bytes + length] = '\n';
	kept_bytes += length + 1;
}

void mt_jemalloc_message_begun(void)
{
	const char *end;

	begins = false;
	for (const char *line = kept; line < kept + kept_bytes; line = end + 1) {
		end = memchr(line, '\n', (size_t)(kept + kept_bytes - line));
		mt_log(MT_LOG_WARN, "%s%.*s", about(line), (int)(end - line), line);
	}
	kept_bytes = 0;
}

void mt_jemalloc_message(void *unused, const char *text)
{
	char line[LINE_BYTES];
	char whole[2 * LINE_BYTES];
	char prefix[MT_LOG_PREFIX_BYTES];

	(void)unused;
	if (strncmp(text, "<jemalloc>: ", 12) != 0) {
		mt_log_raw(text);
		return;
	}
	(void)mt_format(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	if (is_own_choice(line))
		return;
	if (begins && strstr(line, "Unsupported system page size")) {
		refuses_pages = true;
		return;
	}
	if (begins) {
		keep(line);
		return;
	}
	(void)mt_log_prefix(prefix);
	(void)mt_format(whole, sizeof(whole), "%swarn: %s%s\n", prefix, about(line), line);
	mt_log_raw(whole);
}
