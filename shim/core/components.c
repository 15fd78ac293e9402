/* core/components.c -- calls the hooks of all components. */
#include "core/components.h"

#include <stddef.h>

#include "sys/os.h"
#include "sys/saturating.h"

static size_t count(void)
{
	size_t components = 0;

	while (mt_component_table[components])
		components++;
	return components;
}

#define FORWARDS(hook, ...)                                                                        \
	for (size_t i = 0; mt_component_table[i]; i++)                                             \
		if (mt_component_table[i]->hook)                                                   \
			mt_component_table[i]->hook(__VA_ARGS__);
#define BACKWARDS(hook, ...)                                                                       \
	for (size_t i = count(); i-- > 0;)                                                         \
		if (mt_component_table[i]->hook)                                                   \
			mt_component_table[i]->hook(__VA_ARGS__);

void mt_components_serve(bool on)
{
	FORWARDS(serve, on)
}

void mt_components_load(bool on)
{
	FORWARDS(load, on)
}

void mt_components_before_start(void)
{
	FORWARDS(before_start)
}

void mt_components_start(void)
{
	FORWARDS(start)
}

void mt_components_finish(void)
{
	FORWARDS(finish)
}

void mt_components_grown(void)
{
	FORWARDS(grown)
}

void mt_components_fork_prepare(void)
{
	FORWARDS(fork_prepare)
}

void mt_components_fork_parent(void)
{
	BACKWARDS(fork_parent)
}

void mt_components_fork_child(void)
{
	BACKWARDS(fork_child)
}

void mt_components_configure(void)
{
	FORWARDS(configure)
}

void mt_components_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	BACKWARDS(prepare_trim, request, cleanup)
	FORWARDS(trim, request, cleanup)
}

void mt_components_cleaned(const struct mt_stats_cleanup *cleanup, bool charged)
{
	FORWARDS(cleaned, cleanup, charged)
}

void mt_components_publish(bool all)
{
	FORWARDS(publish, all)
}

void mt_components_refresh(void)
{
	FORWARDS(refresh)
}

void mt_components_reset_peak(void)
{
	FORWARDS(reset_peak)
}

void mt_components_stop(void){FORWARDS(stop)}

uint64_t mt_components_tick(uint32_t bits)
{
	uint64_t earliest_ns = UINT64_MAX;

	for (size_t i = 0; mt_component_table[i]; i++) {
		uint64_t next_ns = mt_component_table[i]->tick
					   ? mt_component_table[i]->tick(mt_os_now_ns(), bits)
					   : UINT64_MAX;

		earliest_ns = mt_min_u64(earliest_ns, next_ns);
	}
	return earliest_ns;
}

enum mt_err mt_components_request(const struct mt_request *request)
{
	enum mt_err answer;

	for (size_t i = 0; mt_component_table[i]; i++)
		if (mt_component_table[i]->request &&
		    mt_component_table[i]->request(request, &answer))
			return answer;
	return MT_ERR_OLDER;
}

enum mt_err mt_components_check_setting(const struct mt_config *wanted, const char *name)
{
	for (size_t i = 0; mt_component_table[i]; i++) {
		enum mt_err answer = mt_component_table[i]->check_setting
					     ? mt_component_table[i]->check_setting(wanted, name)
					     : MT_ERR_OK;

		if (answer != MT_ERR_OK)
			return answer;
	}
	return MT_ERR_OK;
}
