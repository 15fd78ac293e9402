/* ctl/diagnose/role.h -- the checklists of `mtctl diagnose --role`: for a server and a client of
 * federated learning, and for a process that is out of memory; and how a diagnosis is printed. The
 * checks are pure: facts in, lines out. */
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

#define MT_CHECKS_MAX 24

struct mt_check {
	enum mt_check_state finding;
	char name[40];               /* for scripts */
	char text[240], advice[240]; /* advice may be "" */
};

struct mt_checks {
	size_t count;
	struct mt_check list[MT_CHECKS_MAX];
};

/* Returns the role of this name; MT_ROLE_NONE: there is none. */
enum mt_role mt_role_parse(const char *word);

void mt_role_check(enum mt_role role, const struct mt_facts *facts,
		   const struct mt_diagnosis *diagnosis, struct mt_checks *out);

/* ---- reports ---- */

struct mt_diagnose_report {
	struct mt_facts *const *facts;
	struct mt_diagnosis *const *diagnoses;
	size_t count, worst;
	struct mt_checks checks; /* empty without --role */
};

void mt_diagnose_print_text(const struct mt_diagnose_report *report);
void mt_diagnose_print_json(const struct mt_diagnose_report *report);

#endif
