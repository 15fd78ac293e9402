/* test_launch_env.c -- what other programs' variables tell us. */
#include <criterion/criterion.h>

#include "core/config.h"
#include "core/core_internal.h"

static struct mt_launch_env read_facts(const char *one, const char *two)
{
	const char *const list[] = {"", "PATH=/bin", one, two, NULL};
	struct mt_launch_env facts;

	memset(&facts, 0xa5, sizeof(facts));
	mt_config_parse_launch_env(list, &facts);
	return facts;
}

Test(config_facts, say_nothing_where_the_environment_is_silent)
{
	struct mt_launch_env facts = read_facts(NULL, NULL);

	cr_expect_eq(facts.world_size, 0);
	cr_expect_not(facts.torch_without_cache || facts.jax_without_bfc ||
		      facts.tensorflow_without_bfc);
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
	/* PyTorch says "Ignoring invalid value for boolean flag" and keeps its cache. */
	cr_expect_not(read_facts("PYTORCH_NO_CUDA_MEMORY_CACHING=true", NULL).torch_without_cache);
	cr_expect_not(read_facts("PYTORCH_NO_CUDA_MEMORY_CACHING=2", NULL).torch_without_cache);
	cr_expect(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=platform", NULL).jax_without_bfc);
	cr_expect(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", NULL).jax_without_bfc);
	cr_expect_not(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=default", NULL).jax_without_bfc);
	cr_expect_not(read_facts("XLA_PYTHON_CLIENT_ALLOCATOR=bfc", NULL).jax_without_bfc);
	cr_expect(read_facts("WORLD_SIZE=2", "TF_GPU_ALLOCATOR=cuda_malloc_async")
			  .tensorflow_without_bfc);
	cr_expect_not(read_facts("TF_GPU_ALLOCATOR=default", NULL).tensorflow_without_bfc);
}

Test(config_facts, know_a_tool_that_watches_cuda_calls)
{
	cr_expect(read_facts("CUDA_INJECTION64_PATH=/opt/libinjection.so", NULL).cuda_injected);
	cr_expect(read_facts("NV_SANITIZER_INJECTION_PORT_BASE=7", NULL).cuda_injected);
	cr_expect_not(read_facts("CUDA_INJECTION64_PATH=", NULL).cuda_injected);
	cr_expect_not(read_facts("NV_LIBS=INJECTION", "CUDA_HOME=/usr/local/cuda").cuda_injected);
}

static void expect_rank(const char *one, const char *two, const char *rank, const char *source)
{
	struct mt_launch_env facts = read_facts(one, two);

	cr_expect_str_eq(facts.rank, rank);
	cr_expect_str_eq(facts.rank_source, source);
}

Test(config_facts, know_the_rank_by_whoever_gives_it)
{
	expect_rank(NULL, NULL, "", "");
	expect_rank("RANK=3", NULL, "3", "RANK");
	expect_rank("SLURM_PROCID=17", NULL, "17", "SLURM_PROCID");
	expect_rank("OMPI_COMM_WORLD_RANK=0", NULL, "0", "OMPI_COMM_WORLD_RANK");
	expect_rank("PMI_RANK=2", NULL, "2", "PMI_RANK");
}

Test(config_facts, take_the_rank_of_the_most_particular_in_any_order)
{
	expect_rank("RANK=5", "SLURM_PROCID=1", "5", "RANK");
	expect_rank("SLURM_PROCID=1", "RANK=5", "5", "RANK");
	expect_rank("PMI_RANK=1", "OMPI_COMM_WORLD_RANK=2", "2", "OMPI_COMM_WORLD_RANK");
	expect_rank("OMPI_COMM_WORLD_RANK=2", "SLURM_PROCID=3", "2", "OMPI_COMM_WORLD_RANK");
	expect_rank("RANK=5", "RANK=6", "5", "RANK");
}

Test(config_facts, take_only_plain_numbers_for_a_rank)
{
	expect_rank("RANK=", NULL, "", "");
	expect_rank("RANK=-1", NULL, "", "");
	expect_rank("RANK=0x3", NULL, "", "");
	expect_rank("RANK=3 ", NULL, "", "");
	expect_rank("RANK=1\n", NULL, "", "");
	expect_rank("RANK=chief", "SLURM_PROCID=4", "4", "SLURM_PROCID");
	expect_rank("RANK=123456789012345", NULL, "123456789012345", "RANK");
	expect_rank("RANK=1234567890123456", NULL, "", "");
	expect_rank("RANKS=1", "RANK_ID=2", "", "");
}
