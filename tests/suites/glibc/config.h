/* config.h -- replaces the one that configure writes for glibc. */
