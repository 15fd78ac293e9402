/* core/config.h -- the settings: parsed once from the environment, changed later only by
 * mt_config_set. Owner: one live copy, mt_config(). Written before any thread of ours exists,
 * afterwards by the worker alone; every number is read with a plain aligned load, so a reader sees
 * the old or the new value. Never allocates, never calls getenv (races with setenv crashed others):
 * it walks the environ it is given. Rank 0; no lock. */
#ifndef MT_CORE_CONFIG_H
#define MT_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/attr.h"
#include "core/option.h"

#define MT_FIELD_bool    uint64_t
#define MT_FIELD_u64     uint64_t
#define MT_FIELD_count   uint64_t
#define MT_FIELD_decimal uint64_t /* thousandths */
#define MT_FIELD_choice  uint64_t
#define MT_FIELD_signal  uint64_t
#define MT_FIELD_round   uint64_t
typedef char mt_text[MT_TEXT_MAX];
#define MT_FIELD_text mt_text

struct mt_config {
#define X(name, kind, dflt, min, max, words, when, help) MT_FIELD_##kind name;
	MT_OPTIONS(X)
#undef X
	uint8_t origin[MT_OPTION_COUNT]; /* enum mt_origin */
	/* index into MT_ALIASES where origin is MT_ORIGIN_ALIAS */
	uint8_t origin_alias[MT_OPTION_COUNT];
};

/* Who numbers the processes of a job, the most particular first: torchrun numbers what it starts
 * below a task of SLURM's, and so does mpirun within an allocation, whose processes all inherit the
 * SLURM_PROCID of the batch script. */
#define MT_RANK_VARIABLES(X) X(RANK) X(OMPI_COMM_WORLD_RANK) X(PMI_RANK) X(SLURM_PROCID)

/* What the environment says to other programs and what we go by, read once with the settings. */
struct mt_launch_env {
	/* WORLD_SIZE: how many processes train together; 0 where it says nothing */
	uint64_t world_size;
	/* PYTORCH_NO_CUDA_MEMORY_CACHING is 1. PyTorch before 2.7 takes any value for it; there we
	 * count where we could pool */
	bool torch_without_cache;
	/* XLA_PYTHON_CLIENT_ALLOCATOR names another allocator than BFC */
	bool jax_without_bfc;
	bool tensorflow_without_bfc; /* TF_GPU_ALLOCATOR, likewise */
	/* MEMORY_PRESSURE_WATCH: the file, pipe or socket that tells of pressure; "" none */
	mt_text pressure_watch;
	/* MEMORY_PRESSURE_WRITE: base64 of what is to be written into it once */
	mt_text pressure_write;
	/* its place among the processes that train together, digits alone; "" none */
	char rank[16];
	/* the variable that says so: the first of MT_RANK_VARIABLES that holds a number */
	char rank_source[32];
};

/* The one live copy. Defaults until mt_config_read has run. */
const struct mt_config *mt_config(void);

/* Fills *out with the defaults. */
void mt_config_defaults(struct mt_config *out);

/* Parses an environment into *out: defaults, then preset, then aliases, then MT_*. A value that is
 * not valid is complained about and leaves what was there. An MT_ name that does not exist is
 * complained about together with the nearest one that does (edit distance at most 3). Pure but for
 * the complaints. */
void mt_config_parse(const char *const *environ_list, struct mt_config *out,
		     mt_config_report complain);

/* Reads the facts of an environment. Pure. */
void mt_launch_env_parse(const char *const *environ_list, struct mt_launch_env *out);

/* The facts that mt_config_read has found; all 0 before. */
const struct mt_launch_env *mt_launch_env(void);

/* mt_config_parse and mt_launch_env_parse into the live copies; complaints go to the log as
 * warnings. */
void mt_config_read(const char *const *environ_list);

/* Sets one setting (name as in options.def or as MT_NAME, in any case) to a value a user would
 * write. UNKNOWN, START_ONLY, INVALID or RANGE; on error *config is untouched. */
enum mt_err mt_config_set(struct mt_config *config, const char *name, const char *value);

/* mt_config_set on the live copy; only the worker may call it. */
enum mt_err mt_config_set_live(const char *name, const char *value);

/* Writes a setting's value as a user would write it ("timer:30", "on", "USR1"), cut to fit, always
 * ended by NUL. */
void mt_config_format(const struct mt_config *config, enum mt_option option, char *out,
		      size_t out_bytes);

/* Writes where it came from: "default", "preset client", "MALLOC_ARENA_MAX", "environment", "mtctl
 * set". */
void mt_config_format_origin(const struct mt_config *config, enum mt_option option, char *out,
			     size_t out_bytes);

/* The setting's name as in options.def; NULL past the end. */
const char *mt_config_name(enum mt_option option);

/* Whether a program of this name is one that MT_ENABLE, MT_ONLY and MT_EXCLUDE let us work in. */
bool mt_program_filter_admits(const struct mt_config *config, const char *program);

#endif
