/* version.c -- the one file that is compiled for each version. */
#include "internal.h"

const int fake_built_version = FAKE_VERSION;
