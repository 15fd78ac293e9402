/* test_config_facts.c -- what other programs' variables tell us. */
#include <criterion/criterion.h>

#include "base/config.h"

static struct mt_config_facts read_facts(const char *one, const char *two)
{
	const char *const list[] = { "", "PATH=/bin", one, two, NULL };
	struct mt_config_facts facts;

	memset(&facts, 0xa5, sizeof(facts));
	mt_config_facts_parse(list, &facts);
	return facts;
}

Test(config_facts, say_nothing_where_the_environment_is_silent)
{
	struct mt_config_facts facts = read_facts(NULL, NULL);

	cr_expect_eq(facts.world_size, 0);
	cr_expect_not(facts.torch_without_cache || facts.jax_without_bfc || facts.tensorflow_without_bfc);
}

Test(config_facts, know_how_many_processes_train_together)
{
	cr_expect_eq(read_facts("WORLD_SIZE=8", NULL).world_size, 8);
	cr_expect_eq(read_facts("WORLD_SIZE=1", NULL).world_size, 1);
	cr_expect_eq(read_facts("WORLD_SIZE=many", NULL).world_size, 0);
	cr_expect_eq(read_facts("WORLD_SIZES=8", NULL).world_size, 0);
}

Test(config_facts, know_which_caches_are_switched_off)
{
	cr_expect(read_facts("PYTORCH_NO_CUDA_MEMORY_CACHING=1", NULL).torch_without_cache);
	cr_expect_not(read_facts("PYTORCH_NO_CUDA_MEMORY_CACHING=0", NULL).torch_without_cache);
	cr_expect_not(read_facts("PYTORCH_NO_CUDA_MEMORY_CACHING=", NULL).torch_without_cache);
	cr_expect(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=platform", NULL).jax_without_bfc);
	cr_expect(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", NULL).jax_without_bfc);
	cr_expect_not(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=default", NULL).jax_without_bfc);
	cr_expect_not(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=bfc", NULL).jax_without_bfc);
	cr_expect(read_facts("WORLD_SIZE=2", "TF_GPU_ALLOCATOR=cuda_malloc_async").tensorflow_without_bfc);
	cr_expect_not(read_facts("TF_GPU_ALLOCATOR=default", NULL).tensorflow_without_bfc);
}
