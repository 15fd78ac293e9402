/* pool_model.c -- pool_model OPERATIONS THREADS WORDS...: the model of pool_model.h; words:
 * captures deaths worker ooms lies. Prints the result as one line of JSON. */
#include "pool_model.h"
#include "no_rescue.h"

int main(int count, char **arguments)
{
	struct model_options options = {.operations = strtoull(arguments[1], NULL, 10),
					.threads = atoi(arguments[2])};
	struct model_result result;

	for (int i = 3; i < count; i++) {
		options.captures |= strcmp(arguments[i], "captures") == 0;
		options.deaths |= strcmp(arguments[i], "deaths") == 0;
		options.worker |= strcmp(arguments[i], "worker") == 0;
		options.ooms |= strcmp(arguments[i], "ooms") == 0;
		options.lies |= strcmp(arguments[i], "lies") == 0;
	}
	result = model_run(&options);
#define FIELD(name, comma) printf("\"" #name "\": %llu" comma, (unsigned long long)result.name)
	printf("{");
	FIELD(operations, ", ");
	FIELD(stale, ", ");
	FIELD(wrongs, ", ");
	FIELD(ledger_blocks, ", ");
	FIELD(ledger_events, ", ");
	FIELD(hits, ", ");
	FIELD(driver_allocs, ", ");
	FIELD(captures, ", ");
	FIELD(deaths, ", ");
	FIELD(retries, ", ");
	FIELD(work, "}\n");
	return 0;
}
