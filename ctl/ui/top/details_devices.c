/* ctl/ui/top/details_devices.c -- the GPUs of a process. */
#include <inttypes.h>
#include <string.h>

#include "ctl/output/text.h"
#include "ctl/ui/top/details.h"

/* What was never used says nothing, and there are four dozen figures. */
static void add_figures(struct mt_top_page *page, const struct mt_stats_device *device)
{
	size_t count;
	const struct mt_stats_file_field *fields = mt_stats_file_device_fields(&count);

	for (size_t i = 0; i < count; i++) {
		uint64_t value = mt_stats_file_value(device, &fields[i]);

		if (value && strcmp(fields[i].name, "ordinal") != 0 &&
		    !mt_text_ends_with(fields[i].name, "_known"))
			mt_top_page_add(page, MT_STYLE_PLAIN, " %-26s %14s  %s", fields[i].name,
					mt_text_field(fields[i].name, value).text, fields[i].help);
	}
}

static void add_device(struct mt_top_page *page, const struct mt_stats_device *device)
{
	mt_top_page_add(page, MT_STYLE_HEADING,
			" GPU %" PRIu64 ": %s%s%s%s, mode %s, %s free of %s", device->ordinal,
			*device->name ? device->name : "?", *device->pci ? " (" : "", device->pci,
			*device->pci ? ")" : "", *device->mode ? device->mode : "?",
			device->free_bytes ? mt_text_bytes(device->free_bytes).text : "?",
			device->total_bytes ? mt_text_bytes(device->total_bytes).text : "?");
	add_figures(page, device);
	if (device->process_known != 1)
		mt_top_page_add(page, MT_STYLE_DIM,
				" NVML does not say what the driver charges this process");
}

void mt_top_page_devices(struct mt_top_page *page, const struct mt_stats_file *file)
{
	if (mt_stats_file_uses_cuda(&file->head))
		mt_top_page_add(
			page, MT_STYLE_PLAIN, " %s, driver %s%s; figures that are 0 are left out",
			*file->head.cuda ? file->head.cuda : "?",
			mt_stats_word_driver(&file->head).text,
			file->head.snapshot.gpu_capturing ? ", a stream captures into a graph"
							  : "");
	for (size_t i = 0; i < file->head.devices_count && i < MT_DEVICES_COUNT; i++)
		add_device(page, &file->devices[i]);
	if (!file->head.devices_count)
		mt_top_page_add(page, MT_STYLE_DIM, " it uses no GPU");
}
