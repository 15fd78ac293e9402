#include "gpu/frameworks.h"

#include <string.h>

#include "sys/atomic.h"
#include "sys/loader.h"

/* as found last; order: none needed, the worker is notified after the first time */
static _Atomic bool is_rescuer;

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

void mt_frameworks_note(const char *path, struct mt_frameworks_seen *seen)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	seen->torch |= begins(name, "libc10_cuda.so");
	seen->jax |= begins(name, "xla_cuda_plugin") || begins(name, "xla_extension");
	seen->tensorflow |= begins(name, "libtensorflow_framework.so");
	seen->sanitizer |= begins(name, "libsanitizer-") || begins(name, "libcuda-memcheck") ||
			   begins(name, "libInterceptorInjectionTarget");
	seen->cupy |= strstr(path, "/cupy/cuda/memory") != NULL;
}

/* Returns why allocations are only counted; NULL: the pool serves them. */
static const char *why_account(uint64_t choice, const struct mt_launch_env *facts,
			       const struct mt_frameworks_seen *seen)
{
	if (choice == MT_CUDA_POOL)
		return NULL;
	if (choice == MT_CUDA_ACCOUNT)
		return "account";
	if (seen->sanitizer || facts->cuda_injected)
		return "account: a tool watches each CUDA call";
	if (seen->torch && !facts->torch_without_cache)
		return "account: PyTorch's caching allocator sits on top";
	if (seen->jax && !facts->jax_without_bfc)
		return "account: JAX's caching allocator sits on top";
	if (seen->tensorflow && !facts->tensorflow_without_bfc)
		return "account: TensorFlow's caching allocator sits on top";
	return seen->cupy ? "account: CuPy's memory pool sits on top" : NULL;
}

struct mt_frameworks_verdict mt_frameworks_decide(uint64_t choice,
						  const struct mt_launch_env *facts,
						  const struct mt_frameworks_seen *seen)
{
	const char *why = why_account(choice, facts, seen);

	if (why)
		return (struct mt_frameworks_verdict){.mode = MT_POOL_ACCOUNT, .text = why};
	return (struct mt_frameworks_verdict){.mode = MT_POOL_POOL,
					      .text = choice != MT_CUDA_POOL && seen->torch
							      ? "pool: PyTorch's own cache is off"
							      : "pool"};
}

static int note_object(struct dl_phdr_info *info, size_t bytes, void *seen)
{
	(void)bytes;
	if (info->dlpi_name)
		mt_frameworks_note(info->dlpi_name, seen);
	return 0;
}

bool mt_frameworks_wait(uint64_t choice, const struct mt_launch_env *facts,
			const struct mt_frameworks_seen *seen)
{
	return choice == MT_CUDA_FREE_AUTO ? !(seen->torch && facts->torch_without_cache)
					   : choice == MT_CUDA_FREE_WAIT;
}

struct mt_frameworks_verdict mt_frameworks_look(void)
{
	const struct mt_config *cfg = mt_config();
	const struct mt_launch_env *facts = mt_config_launch_env();
	struct mt_frameworks_verdict verdict;
	struct mt_frameworks_seen seen = {0};
	bool may_give;

	(void)mt_loader_iterate(note_object, &seen);
	may_give = !seen.sanitizer && !facts->cuda_injected && !facts->cuda_mps;
	mt_store_relaxed(&is_rescuer, may_give);
	verdict = mt_frameworks_decide(cfg->cuda, facts, &seen);
	verdict.waits = mt_frameworks_wait(cfg->cuda_free, facts, &seen);
	if (may_give)
		verdict.rescue = why_account(MT_CUDA_AUTO, facts, &seen) ? MT_RESCUE_AGAIN
									 : MT_RESCUE_AT_ONCE;
	return verdict;
}

bool mt_frameworks_is_rescuer(void)
{
	return mt_load_relaxed(&is_rescuer);
}
