/* test_jemalloc_conf.c -- heap/jemalloc_conf: whose word counts, and what is refused. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#ifndef MT_NO_JEMALLOC
#include "heap/jemalloc_internal.h"
#include "core/core_internal.h"

#define OURS_COUNT 8

/* The conf that comes out of a stock MALLOC_CONF and of MT_MALLOC_CONF; either may be NULL. */
static const char *conf_of(const char *stock, const char *own, uint64_t arena_max, size_t out_bytes)
{
	static char out[2048];
	static char entry[512];
	char *list[] = {(char[]){"PATH=/bin"}, entry, NULL};
	char **kept = environ;
	struct mt_config config;

	mt_config_defaults(&config);
	config.arena_max = arena_max;
	if (own)
		strcpy(config.malloc_conf, own);
	strcpy(entry, "MALLOC_CONF=");
	if (stock)
		strcat(entry, stock);
	else
		list[1] = NULL;
	memset(out, 'x', sizeof(out));
	environ = list;
	mt_jemalloc_conf(&config, out, out_bytes);
	environ = kept;
	cr_assert_not_null(memchr(out, 0, out_bytes), "ended within its bounds");
	cr_assert_eq(out[out_bytes], 'x', "and nothing beyond");
	return out;
}

/* What stands behind our own pairs. */
static const char *tail_of(const char *stock, const char *own, uint64_t arena_max)
{
	const char *at = conf_of(stock, own, arena_max, 1024);

	for (int i = 0; i < OURS_COUNT; i++) {
		at += strcspn(at, ",");
		if (*at)
			at++;
	}
	return at;
}

Test(jemalloc_conf, keeps_purging_off_the_programs_threads)
{
	const char *conf = conf_of(NULL, NULL, 0, 1024);

	cr_expect_not_null(strstr(conf, "dirty_decay_ms:-1"));
	cr_expect_not_null(strstr(conf, "muzzy_decay_ms:-1"));
	cr_expect_null(strstr(conf, "background_thread:true"));
	cr_expect_str_eq(tail_of(NULL, NULL, 0), "", "OURS_COUNT is right");
}

Test(jemalloc_conf, takes_a_stock_conf_but_for_what_would_purge_or_abort)
{
	static const struct {
		const char *stock, *tail;
	} rows[] = {
		{"narenas:4", "narenas:4"},
		{"dirty_decay_ms:5000", ""},
		{"background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:5000", ""},
		{"narenas:4,background_thread:true,metadata_thp:auto",
		 "narenas:4,metadata_thp:auto"},
		{"decay_time:10,tcache:true,max_background_threads:2", "tcache:true"},
		{"abort_conf:true,lg_tcache_max:16,stats_interval:1000", "lg_tcache_max:16"},
		{"", ""},
		{",,,", ""},
		{",narenas:2,,tcache:true,", "narenas:2,tcache:true"},
		{"dirty_decay_ms", "dirty_decay_ms"}, /* no pair: jemalloc says so itself */
		{"dirty_decay_msx:1", "dirty_decay_msx:1"},
		{"abort:true,narenas:2", "narenas:2"},
		{"hpa:true,narenas:2", "narenas:2"},
		{"abortx:true", "abortx:true"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_str_eq(tail_of(rows[i].stock, NULL, 0), rows[i].tail, "row %zu", i);
}

Test(jemalloc_conf, the_users_word_comes_last)
{
	cr_expect_str_eq(
		tail_of("narenas:4,dirty_decay_ms:1", "dirty_decay_ms:7,background_thread:true", 0),
		"narenas:4,dirty_decay_ms:7");
	cr_expect_str_eq(tail_of(NULL, "hpa:true,tcache:false", 0), "tcache:false");
	cr_expect_str_eq(tail_of("narenas:4", "narenas:9", 2), "narenas:2,narenas:4,narenas:9");
	cr_expect_str_eq(tail_of(NULL, "thp:always", 1024), "narenas:1024,thp:always");
}

/* The conf for a choice of MT_PROF and a stock MALLOC_CONF. */
static const char *prof_tail(enum mt_prof_choice choice, const char *stock)
{
	static char out[1024];
	static char entry[256];
	char *list[] = {entry, NULL};
	char **kept = environ;
	struct mt_config config;

	mt_config_defaults(&config);
	config.prof = choice;
	strcpy(entry, "MALLOC_CONF=");
	strcat(entry, stock);
	environ = list;
	mt_jemalloc_conf(&config, out, sizeof(out));
	environ = kept;
	return out + strlen(conf_of(NULL, NULL, 0, 1024));
}

Test(jemalloc_conf, says_nothing_of_a_profiler_that_is_not_asked_for)
{
	cr_expect_str_eq(prof_tail(MT_PROF_NONE, ""), "");
	cr_expect_str_eq(prof_tail(MT_PROF_OFF, ""), "");
	cr_expect_null(strstr(conf_of(NULL, NULL, 0, 1024), "prof"));
}

Test(jemalloc_conf, makes_the_profiler_ready_or_lets_it_sample_and_never_writes_files_of_its_own)
{
	cr_expect_str_eq(prof_tail(MT_PROF_READY, ""), ",prof:true,prof_active:false,prof_prefix:");
	cr_expect_str_eq(prof_tail(MT_PROF_ON, ""), ",prof:true,prof_active:true,prof_prefix:");
}

Test(jemalloc_conf, keeps_what_a_stock_conf_says_of_the_profiler)
{
	cr_expect_str_eq(prof_tail(MT_PROF_NONE, "prof:true,prof_prefix:/tmp/x"),
			 ",prof:true,prof_prefix:/tmp/x");
	cr_expect_str_eq(prof_tail(MT_PROF_READY, "lg_prof_sample:17"),
			 ",prof:true,prof_active:false,prof_prefix:,lg_prof_sample:17");
}

Test(jemalloc_conf, slabs_of_the_user_stand_single)
{
	const char *conf = conf_of(NULL, "narenas:2,slab_sizes:8-8:1", 0, 1024);

	cr_expect_not_null(strstr(conf, ",narenas:2,slab_sizes:8-8:1"));
	cr_expect_null(strstr(conf, "1537-2048"), "%s", conf);
	cr_expect_null(strstr(conf_of("slab_sizes:8-8:1", NULL, 0, 1024), "1537-2048"));
	cr_expect_not_null(
		strstr(conf_of("slab_sizesx:1,narenas:2", "xslab_sizes:1", 0, 1024), "1-1280:1"));
}

Test(jemalloc_conf, nobody_may_end_the_program_over_a_setting)
{
	cr_expect_str_eq(tail_of("abort_conf:true", "abort_conf:true,narenas:1", 0), "narenas:1");
}

Test(jemalloc_conf, cuts_whole_pairs_only)
{
	static char whole[1024];
	size_t length;

	strcpy(whole, conf_of("narenas:4,tcache:true", "thp:always", 3, 1024));
	length = strlen(whole);
	for (size_t room = 1; room <= length; room++) {
		static char copy[1024];
		const char *conf = conf_of("narenas:4,tcache:true", "thp:always", 3, room);
		char *rest = copy;
		char *pair;

		strcpy(copy, conf);
		cr_assert_lt(strlen(conf), room);
		while ((pair = strsep(&rest, ",")) != NULL && *conf) {
			const char *found = strstr(whole, pair);

			cr_assert_not_null(found, "room for %zu: %s", room, pair);
			cr_assert(found == whole || found[-1] == ',', "room for %zu: %s", room,
				  pair);
			found += strlen(pair);
			cr_assert(*found == ',' || *found == 0, "room for %zu: half a pair, %s",
				  room, pair);
		}
	}
	cr_expect_str_eq(conf_of("narenas:4,tcache:true", "thp:always", 3, length + 1), whole);
}

Test(jemalloc_conf, lives_without_an_environment)
{
	char out[512] = "x";
	char **kept = environ;
	struct mt_config config;

	mt_config_defaults(&config);
	environ = NULL;
	mt_jemalloc_conf(&config, out, sizeof(out));
	environ = kept;
	cr_expect_not_null(strstr(out, "dirty_decay_ms:-1"));
}
#endif
