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

#define FORWARDS(hook, arguments)                                                                  \
	for (size_t i = 0; mt_component_table[i]; i++)                                             \
		if (mt_component_table[i]->hook)                                                   \
			mt_component_table[i]->hook arguments;
#define BACKWARDS(hook, arguments)                                                                 \
	for (size_t i = count(); i-- > 0;)                                                         \
		if (mt_component_table[i]->hook)                                                   \
			mt_component_table[i]->hook arguments;

#define X(order, name, parameters, arguments)                                                      \
	void mt_components_##name parameters                                                       \
	{                                                                                          \
		order(name, arguments);                                                            \
	}
MT_COMPONENT_CALLS(X)
#undef X

void mt_components_trim(const struct mt_trim_request *request, struct mt_cleanup *cleanup)
{
	BACKWARDS(prepare_trim, (request, cleanup));
	FORWARDS(trim, (request, cleanup));
}

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
