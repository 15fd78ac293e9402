#include "ctl/ui/top/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/read_file.h"

/* "some avg10=0.12 avg60=..." */
static bool read_stalls(const char *root, double *out_pct)
{
	char path[512], *text, *end;
	const char key[] = "some avg10=";
	const char *found;
	bool known = false;

	snprintf(path, sizeof(path), "%s/proc/pressure/memory", root);
	text = mt_read_file(path, NULL);
	found = text ? strstr(text, key) : NULL;
	if (found) {
		double value = strtod(found + strlen(key), &end);

		known = end != found + strlen(key) && value >= 0 && value <= 100;
		if (known)
			*out_pct = value;
	}
	free(text);
	return known;
}

void mt_top_machine_read(const char *root, struct mt_top_machine *out)
{
	uint64_t swap_free = mt_limit_meminfo(root, "SwapFree");

	*out = (struct mt_top_machine){0};
	out->total_bytes = mt_limit_meminfo(root, "MemTotal");
	out->used_bytes = mt_limit_machine_used(root);
	out->swap_total_bytes = mt_limit_meminfo(root, "SwapTotal");
	out->swap_used_bytes =
		out->swap_total_bytes > swap_free ? out->swap_total_bytes - swap_free : 0;
	out->has_limit = mt_limit_find(root, 0, &out->limit) == MT_ERR_OK && out->limit.is_cgroup;
	out->has_stalls = read_stalls(root, &out->stall_pct);
}

static bool contains(const struct mt_top_gpus *gpus, const char *pci)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (strcmp(gpus->list[i].pci, pci) == 0)
			return true;
	return false;
}

void mt_top_gpus_add(struct mt_top_gpus *gpus, const struct mt_stats_device *devices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct mt_stats_device *device = &devices[i];
		struct mt_top_gpu *gpu = &gpus->list[gpus->count];

		if (gpus->count == MT_DEVICES_COUNT || !device->total_bytes ||
		    !device->free_bytes || contains(gpus, device->pci))
			continue;
		snprintf(gpu->pci, sizeof(gpu->pci), "%s", device->pci);
		snprintf(gpu->name, sizeof(gpu->name), "%s", device->name);
		gpu->total_bytes = device->total_bytes;
		gpu->used_bytes = device->total_bytes > device->free_bytes
					  ? device->total_bytes - device->free_bytes
					  : 0;
		gpus->count++;
	}
}
