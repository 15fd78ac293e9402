/* ctl/diagnose/role.h -- the checklists of `mtctl diagnose --role`: what a guide for federated
 * learning would have one look at, for a server, for a client, and when memory has run out. Pure:
 * facts in, lines out. */
#ifndef MT_CTL_DIAGNOSE_ROLE_H
#define MT_CTL_DIAGNOSE_ROLE_H

#include "ctl/diagnose/diagnose.h"
#include "ctl/diagnose/doctor.h"

#define MT_ROLES(X) X(SERVER, "server") X(CLIENT, "client") X(OOM, "oom")

enum mt_role {
	MT_ROLE_NONE,
#define X(name, word) MT_ROLE_##name,
	MT_ROLES(X)
#undef X
};

#define MT_CHECKS_MOST 24

struct mt_check {
	enum mt_finding finding;
	char name[40];               /* for scripts */
	char text[240], advice[240]; /* advice may be "" */
};

struct mt_checks {
	size_t count;
	struct mt_check list[MT_CHECKS_MOST];
};

/* NONE: no such role. */
enum mt_role mt_role_parse(const char *word);

void mt_role_check(enum mt_role role, const struct mt_diagnose_facts *facts,
		   const struct mt_diagnosis *diagnosis, struct mt_checks *out);

/* One line more; `advice` may be NULL. */
void mt_role_say(struct mt_checks *to, enum mt_finding finding, const char *name,
		 const char *advice, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- telling: of all processes that were looked at, where `worst` has the verdict ---- */

struct mt_diagnose_report {
	struct mt_diagnose_facts *const *facts;
	struct mt_diagnosis *const *diagnoses;
	size_t count, worst;
	struct mt_checks checks; /* of a role, if one was asked for */
};

void mt_diagnose_print_text(const struct mt_diagnose_report *told);
void mt_diagnose_print_json(const struct mt_diagnose_report *told);

#endif
