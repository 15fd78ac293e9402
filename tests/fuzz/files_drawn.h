/* files_drawn.h -- the half of fuzz_files.c that becomes pictures: recordings. */
#ifndef MT_TEST_FILES_DRAWN_H
#define MT_TEST_FILES_DRAWN_H

#include <stdbool.h>

#include "ctl/metrics/recording.h"
#include "fuzz.h"

/* false: it is refused, with a reason. Else *out is the caller's to free. */
bool fuzz_read_recording(const struct fuzz_part *part, struct mt_recording *out);

/* One picture of the first, and with more than one of all of them. */
void fuzz_draw(const struct mt_recording *recordings, size_t count);

#endif
