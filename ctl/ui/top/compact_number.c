#include "ctl/ui/top/compact_number.h"

#include <inttypes.h>
#include <stdio.h>

struct mt_short_text mt_top_bytes(uint64_t bytes)
{
	static const char units[] = "KMGT";
	struct mt_short_text figure = {"0"};
	double value = (double)bytes / 1024;
	size_t unit = 0;

	if (!bytes)
		return figure;
	while (value >= 999.5 && unit + 1 < sizeof(units) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit == 0 || value >= 99.95)
		snprintf(figure.text, sizeof(figure.text), "%.0f%c", value < 1 ? 1 : value,
			 units[unit]);
	else if (unit >= 2 && value < 9.995)
		snprintf(figure.text, sizeof(figure.text), "%.2f%c", value, units[unit]);
	else
		snprintf(figure.text, sizeof(figure.text), "%.1f%c", value, units[unit]);
	return figure;
}

struct mt_short_text mt_top_change(uint64_t before, uint64_t after)
{
	struct mt_short_text figure,
		size = mt_top_bytes(after > before ? after - before : before - after);

	snprintf(figure.text, sizeof(figure.text), "%s%.40s",
		 after > before   ? "+"
		 : after < before ? "-"
				  : "",
		 size.text);
	return figure;
}

struct mt_short_text mt_top_ago(uint64_t now_ns, uint64_t then_ns)
{
	uint64_t seconds = now_ns > then_ns ? (now_ns - then_ns) / 1000000000u : 0;
	struct mt_short_text figure;

	if (seconds < 60)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "s", seconds);
	else if (seconds < 3600)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "m", seconds / 60);
	else if (seconds < 86400)
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "h", seconds / 3600);
	else
		snprintf(figure.text, sizeof(figure.text), "%" PRIu64 "d", seconds / 86400);
	return figure;
}

struct mt_short_text mt_top_percent(double percent)
{
	struct mt_short_text figure;

	snprintf(figure.text, sizeof(figure.text), "%.*f",
		 percent >= 9.95    ? 0
		 : percent >= 0.095 ? 1
		 : percent > 0      ? 2
				    : 0,
		 percent);
	return figure;
}
