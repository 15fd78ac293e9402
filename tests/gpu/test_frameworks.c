/* test_frameworks.c -- which caching allocator sits on top, and what follows. */
#include <criterion/criterion.h>

#include <string.h>

#include "gpu/frameworks.h"

static const struct {
	const char *paths[3]; /* loaded */
	uint64_t choice;
	struct mt_launch_env facts;
	enum mt_pool_mode mode;
	const char *word; /* in the text */
} cases[] = {
	{{"/lib/x86_64-linux-gnu/libc.so.6"}, MT_CUDA_AUTO, {0}, MT_POOL_POOL, "pool"},
	{{"/v/torch/lib/libc10_cuda.so"}, MT_CUDA_AUTO, {0}, MT_POOL_ACCOUNT, "PyTorch"},
	{{"/v/torch/lib/libc10_cuda.so"},
	 MT_CUDA_AUTO,
	 {.torch_without_cache = true},
	 MT_POOL_POOL,
	 "PyTorch's own cache is off"},
	{{"/v/torch/lib/libc10.so"}, MT_CUDA_AUTO, {0}, MT_POOL_POOL, "pool"},
	{{"/v/jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
	 MT_CUDA_AUTO,
	 {0},
	 MT_POOL_ACCOUNT,
	 "JAX"},
	{{"/v/jaxlib/xla_extension.so"}, MT_CUDA_AUTO, {0}, MT_POOL_ACCOUNT, "JAX"},
	{{"/v/jaxlib/xla_extension.so"},
	 MT_CUDA_AUTO,
	 {.jax_without_bfc = true},
	 MT_POOL_POOL,
	 "pool"},
	{{"/v/tensorflow/libtensorflow_framework.so.2"},
	 MT_CUDA_AUTO,
	 {0},
	 MT_POOL_ACCOUNT,
	 "TensorFlow"},
	{{"/v/tensorflow/libtensorflow_framework.so.2"},
	 MT_CUDA_AUTO,
	 {.tensorflow_without_bfc = true},
	 MT_POOL_POOL,
	 "pool"},
	{{"/v/cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so"},
	 MT_CUDA_AUTO,
	 {0},
	 MT_POOL_ACCOUNT,
	 "CuPy"},
	{{"/v/other/memory.cpython-311-x86_64-linux-gnu.so"},
	 MT_CUDA_AUTO,
	 {0},
	 MT_POOL_POOL,
	 "pool"},
	{{"/opt/cuda/compute-sanitizer/libsanitizer-collection.so"},
	 MT_CUDA_AUTO,
	 {0},
	 MT_POOL_ACCOUNT,
	 "tool"},
	{{NULL}, MT_CUDA_AUTO, {.cuda_injected = true}, MT_POOL_ACCOUNT, "tool"},
	{{NULL}, MT_CUDA_POOL, {.cuda_injected = true}, MT_POOL_POOL, "pool"},
	/* one of two has no cache: the other still does */
	{{"/v/torch/lib/libc10_cuda.so", "/v/jaxlib/xla_extension.so"},
	 MT_CUDA_AUTO,
	 {.torch_without_cache = true},
	 MT_POOL_ACCOUNT,
	 "JAX"},
	/* who says what he wants gets it */
	{{"/v/torch/lib/libc10_cuda.so"}, MT_CUDA_POOL, {0}, MT_POOL_POOL, "pool"},
	{{NULL}, MT_CUDA_ACCOUNT, {0}, MT_POOL_ACCOUNT, "account"},
};

Test(frameworks, a_cache_on_top_leaves_only_counting)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mt_frameworks_seen seen = {0};
		struct mt_frameworks_verdict verdict;

		for (size_t j = 0; j < 3 && cases[i].paths[j]; j++)
			mt_frameworks_note(cases[i].paths[j], &seen);
		verdict = mt_frameworks_decide(cases[i].choice, &cases[i].facts, &seen);

		cr_expect_eq(verdict.mode, cases[i].mode, "case %zu: %s", i, verdict.text);
		cr_expect_not_null(strstr(verdict.text, cases[i].word), "case %zu: %s", i,
				   verdict.text);
		cr_expect_lt(strlen(verdict.text), 64);
	}
}

Test(frameworks, a_process_without_any_pools)
{
	cr_expect_eq(mt_frameworks_look().mode, MT_POOL_POOL);
}

Test(frameworks, a_free_does_without_the_wait_only_for_pytorch_without_its_cache)
{
	const struct mt_launch_env none = {0}, uncached = {.torch_without_cache = true};
	const struct mt_frameworks_seen nobody = {0}, torch = {.torch = true};

	cr_expect(mt_frameworks_wait(MT_CUDA_FREE_AUTO, &none, &nobody));
	cr_expect(mt_frameworks_wait(MT_CUDA_FREE_AUTO, &none, &torch));
	cr_expect(mt_frameworks_wait(MT_CUDA_FREE_AUTO, &uncached, &nobody));
	cr_expect_not(mt_frameworks_wait(MT_CUDA_FREE_AUTO, &uncached, &torch));
	cr_expect(mt_frameworks_wait(MT_CUDA_FREE_WAIT, &uncached, &torch));
	cr_expect_not(mt_frameworks_wait(MT_CUDA_FREE_ASYNC, &none, &nobody));
}
