/* ctl/diagnose/facts_internal.h -- the steps of facts.c, for its tests. */
#ifndef MT_CTL_DIAGNOSE_FACTS_INTERNAL_H
#define MT_CTL_DIAGNOSE_FACTS_INTERNAL_H

#include "ctl/diagnose/diagnose.h"

/* A library that carries an allocator of its own, under names of its own. */
struct mt_diagnose_carrier {
	const char *prefix;      /* of the file's name */
	const char *name;        /* whose memory it is */
	const char *explanation; /* NULL: an allocator that a program may also be linked with */
	const char *way_back;    /* how it returns what is free; NULL: none is known */
	/* a runtime that collects and returns memory itself: it is a finding only if it grows */
	bool is_managed;
	bool is_whole; /* prefix is the whole name */
};

/* The carrier that a mapped file is; NULL: it is none. */
const struct mt_diagnose_carrier *mt_diagnose_carrier(const char *path);

/* Takes one sample, at_s seconds after the first. Returns false if the process has ended, or
 * if the facts are full. */
bool mt_diagnose_sample_now(struct mt_facts *facts, double at_s);

/* Each fills one part of the facts, and leaves it empty if it may not read. The group is read
 * after the limit. */
void mt_diagnose_read_group(const struct mt_facts *facts, struct mt_diagnose_group *out);
void mt_diagnose_read_maps(struct mt_facts *facts);    /* and the environment */
void mt_diagnose_read_history(struct mt_facts *facts); /* once, from facts->first */

#endif
