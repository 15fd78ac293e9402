#include "files_drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ui/plot/plot.h"
#include "ctl/output/text.h"
#include "ctl/process/read_file.h"

/* Pictures are XML: nothing that was read becomes an element of it. */
static void expect_picture(const char *path)
{
	size_t length = 0;
	char *text = mt_read_file(path, &length);

	fuzz_expect(text && strncmp(text, "<?xml", 5) == 0, "a picture of %zu bytes", length);
	for (const char *at = text; (at = strchr(at, '<')); at++)
		fuzz_expect(strchr("?/sgtrp", at[1]) && strncmp(at, "<script", 7) != 0, "%.20s",
			    at);
	for (size_t i = 0; i < length; i++)
		fuzz_expect((unsigned char)text[i] >= ' ' || text[i] == '\n', "byte %zu is 0x%02x",
			    i, (unsigned char)text[i]);
	free(text);
}

void fuzz_draw(const struct mt_recording *recordings, size_t count)
{
	struct mt_picture_options options = {.gpu = true, .width = 640, .height = 400};
	struct mt_compare_options both = {.size = {.width = 640}};
	struct mt_run runs[MT_COMPARISON_MAX];
	char path[128];
	struct mt_error_reason why = {.text = ""};

	snprintf(path, sizeof(path), "%s/picture.svg", fuzz_root());
	options.path = both.path = path;
	options.as_clock = count % 2;
	if (mt_picture_draw(&recordings[0], &options, &why) == MT_ERR_OK)
		expect_picture(path);
	else
		fuzz_expect_text("why there is no picture", why.text, sizeof(why.text));
	for (size_t i = 0; i < count; i++)
		mt_run_of(&recordings[i], NULL, &runs[i]);
	if (count > 1 && mt_comparison_draw(runs, count, &both, &why) == MT_ERR_OK)
		expect_picture(path);
	(void)unlink(path);
}

bool fuzz_read_recording(const struct fuzz_part *part, struct mt_recording *out)
{
	struct mt_error_reason why = {.text = ""};
	char path[64];
	int fd = fuzz_file(part->text, part->bytes);
	enum mt_err error;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	error = mt_recording_read(path, out, &why);
	close(fd);
	fuzz_expect_text("why a recording is refused", why.text, sizeof(why.text));
	if (error)
		return false;
	fuzz_expect_text("a recording's warning", out->warning.text, sizeof(out->warning.text));
	fuzz_expect_text("a recording's host", out->host, sizeof(out->host));
	for (size_t i = 0; i < out->processes_count; i++)
		fuzz_expect_text("a command", out->processes[i].command,
				 sizeof(out->processes[i].command));
	for (size_t i = 1; i < out->samples_count; i++)
		fuzz_expect(out->samples[i - 1].time_ns <= out->samples[i].time_ns, "sample %zu",
			    i);
	return true;
}
