/* core/config.h -- the settings: parsed once from the environment, changed later only by
 * mt_config_set_live. Owns the one live copy, and what other variables tell. Any thread may read
 * it. It is written before a thread of the shim exists, then only by the worker thread. Each number
 * is one aligned word, so a reader sees the old or the new value. Takes no lock. Never allocates.
 * Never calls getenv, which races with the program's setenv: it reads the environ it is given. */
#ifndef MT_CORE_CONFIG_H
#define MT_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/options.def"
#include "sys/attr.h"
#include "sys/saturating.h"

/* ---- one value ---- */

/* The table of settings as data, the settings and their choices as enums, and the parser and
 * formatter of one value. mtctl has its parser here too. Any thread may call. Never reads the
 * locale. */

#define MT_TEXT_MAX 256 /* bytes of a text setting, with its NUL */
/* cleaning time that MT_BUDGET_PCT begins with (purge/policy.h) */
#define MT_BUDGET_FIRST_MS 300u

enum mt_option {
#define X(name, kind, dflt, min, max, words, when, help) MT_OPTION_##name,
	MT_OPTIONS(X) MT_OPTION_COUNT
#undef X
};

enum mt_round_mode { MT_ROUND_TIMER, MT_ROUND_MARK, MT_ROUND_SIGNAL, MT_ROUND_AUTO };
enum mt_allocator_choice { MT_ALLOCATOR_AUTO, MT_ALLOCATOR_JEMALLOC, MT_ALLOCATOR_SYSTEM };
enum mt_python_malloc_choice {
	MT_PYTHON_MALLOC_AUTO,
	MT_PYTHON_MALLOC_ON,
	MT_PYTHON_MALLOC_OFF,
	MT_PYTHON_MALLOC_OBJECT,
	MT_PYTHON_MALLOC_MALLOC
};
enum mt_cuda_choice { MT_CUDA_AUTO, MT_CUDA_POOL, MT_CUDA_ACCOUNT, MT_CUDA_OFF };
enum mt_cuda_free_choice { MT_CUDA_FREE_AUTO, MT_CUDA_FREE_WAIT, MT_CUDA_FREE_ASYNC };
enum mt_prof_choice { MT_PROF_NONE, MT_PROF_READY, MT_PROF_OFF, MT_PROF_ON };

/* Where a value came from. */
enum mt_origin {
	MT_ORIGIN_DEFAULT,
	MT_ORIGIN_PRESET,
	MT_ORIGIN_ALIAS,
	MT_ORIGIN_ENVIRONMENT,
	MT_ORIGIN_SET
};

#define MT_COUNT_AUTO UINT64_MAX /* the value "auto" of a count */

#define mt_round_mode_of(round)    ((enum mt_round_mode)((round)&0xff))
#define mt_round_seconds_of(round) ((uint64_t)(round) >> 8)

enum mt_kind {
	MT_KIND_bool,
	MT_KIND_u64,
	MT_KIND_count,
	MT_KIND_choice,
	MT_KIND_text,
	MT_KIND_signal,
	MT_KIND_round
};

struct mt_option_row {
	const char *name;
	const char *dflt;  /* as a user would write it */
	const char *words; /* of a choice, separated by | */
	uint64_t min;
	uint64_t max;
	uint16_t offset; /* of the field in struct mt_config */
	uint8_t kind;    /* enum mt_kind */
	bool is_live;
};

/* Parses a value. Returns MT_ERR_INVALID for a malformed value, and MT_ERR_RANGE for one outside
 * min..max or a text that is too long. *out: written only on success, and not for a text. */
enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out);

/* Describes the valid values in one line, such as "0..100 %" or "auto|on|off". */
void mt_config_value_allowed(const struct mt_option_row *row, char *out, size_t out_bytes);

/* ---- all settings ---- */

#define MT_FIELD_bool   uint64_t
#define MT_FIELD_u64    uint64_t
#define MT_FIELD_count  uint64_t
#define MT_FIELD_choice uint64_t
#define MT_FIELD_signal uint64_t
#define MT_FIELD_round  uint64_t
typedef char mt_text[MT_TEXT_MAX];
#define MT_FIELD_text mt_text

struct mt_config {
#define X(name, kind, dflt, min, max, words, when, help) MT_FIELD_##kind name;
	MT_OPTIONS(X)
#undef X
	uint8_t origin[MT_OPTION_COUNT]; /* enum mt_origin */
	/* index into MT_ALIASES if origin is MT_ORIGIN_ALIAS */
	uint8_t origin_alias[MT_OPTION_COUNT];
};

/* The variables that hold a process's rank, by precedence. A launcher that runs inside a task of
 * another one comes first: torchrun within SLURM, mpirun within an allocation, whose processes all
 * inherit the SLURM_PROCID of the batch script. */
#define MT_RANK_VARIABLES(X) X(RANK) X(OMPI_COMM_WORLD_RANK) X(PMI_RANK) X(SLURM_PROCID)

/* Variables of other programs that the shim reads, once, together with the settings. */
struct mt_launch_env {
	/* WORLD_SIZE: how many processes train together; 0: unset */
	uint64_t world_size;
	/* PYTORCH_NO_CUDA_MEMORY_CACHING is 1. PyTorch before 2.7 accepts any value: there the pool
	 * stays off although it could serve */
	bool torch_without_cache;
	/* XLA_PYTHON_CLIENT_ALLOCATOR names another allocator than BFC */
	bool jax_without_bfc;
	bool tensorflow_without_bfc; /* TF_GPU_ALLOCATOR, likewise */
	/* a tool watches the CUDA calls: CUDA_INJECTION64_PATH, or NV_*INJECTION* of
	 * compute-sanitizer and others, is not empty */
	bool cuda_injected;
	bool cuda_mps; /* CUDA_MPS_PIPE_DIRECTORY is not empty: a client of the MPS server */
	/* MEMORY_PRESSURE_WATCH: a file with the stall of the service's cgroup; "": unset */
	mt_text pressure_watch;
	/* XDG_STATE_HOME, or HOME with /.local/state; "": unset */
	mt_text state_home;
	/* rank among the processes that train together, digits only; "": unset */
	char rank[16];
	/* the variable that holds it: the first of MT_RANK_VARIABLES with a number */
	char rank_source[32];
};

/* Returns the live copy. It holds the defaults until mt_config_read has run. */
const struct mt_config *mt_config(void);

/* Returns the values that mt_config_read found; all 0 before. */
const struct mt_launch_env *mt_config_launch_env(void);

/* Parses both into the live copies, and logs the reports as warnings. Called once, before a thread
 * of the shim exists. */
void mt_config_read(const char *const *environ_list);

/* Sets one setting. name: as in options.def or MT_NAME, in any case. value: as a user would write
 * it. Returns MT_ERR_UNKNOWN, MT_ERR_START_ONLY, MT_ERR_INVALID or MT_ERR_RANGE, and then leaves
 * *config as it is. */
enum mt_err mt_config_set(struct mt_config *config, const char *name, const char *value);

/* mt_config_set on the live copy. Worker thread. */
enum mt_err mt_config_set_live(const char *name, const char *value);

/* Formats a setting's value as a user would write it ("timer:30", "on", "USR1"), cut to out_bytes
 * with a NUL. */
void mt_config_format(const struct mt_config *config, enum mt_option option, char *out,
		      size_t out_bytes);

/* Formats where a value came from: "default", "preset client", "MALLOC_ARENA_MAX", "environment" or
 * "mtctl set". */
void mt_config_format_origin(const struct mt_config *config, enum mt_option option, char *out,
			     size_t out_bytes);

/* Returns the setting's name as in options.def; NULL past the end. */
const char *mt_config_name(enum mt_option option);

/* Returns whether MT_ENABLE, MT_ONLY and MT_EXCLUDE let the shim work in a program of this name or
 * path. Pure. */
bool mt_config_admits(const struct mt_config *config, const char *program);

/* Returns how many bytes of free memory are worth a purge, for the policy of the shim and for
 * mtctl: the larger one of slack_mb MiB (MT_SLACK_MB) and slack_pct percent (MT_SLACK_PCT) of
 * anon_bytes. With less than 64 MiB of anonymous memory the first is smaller in proportion.
 * Pure. */
static inline uint64_t mt_config_slack_bytes(uint64_t anon_bytes, uint64_t slack_mb,
					     uint64_t slack_pct)
{
	uint64_t unit = mt_min_u64(anon_bytes, (uint64_t)64 << 20) / 64;

	return mt_max_u64(slack_mb * unit, anon_bytes / 100 * slack_pct);
}

#endif
