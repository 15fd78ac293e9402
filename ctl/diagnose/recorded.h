/* ctl/diagnose/recorded.h -- a recording as the facts that diagnose evaluates. For one thread. */
#ifndef MT_CTL_DIAGNOSE_RECORDED_H
#define MT_CTL_DIAGNOSE_RECORDED_H

#include "ctl/diagnose/diagnose.h"
#include "ctl/metrics/recording.h"

/* Fills *out with what a recording has of its root, for mt_diagnose_decide: as many samples as fit,
 * of each part of the time the lowest and the highest. Nothing is asked of a process. */
void mt_recorded_facts(const struct mt_recording *recording, struct mt_facts *out);

/* Changes texts of a diagnosis that advise a longer look at a process which may have ended. */
void mt_recorded_advise(struct mt_diagnosis *diagnosis);

#endif
