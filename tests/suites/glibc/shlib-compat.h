/* shlib-compat.h -- replaces glibc's: a program that is linked today gets no old version of a
 * symbol. */
#define SHLIB_COMPAT(library, introduced, obsoleted) 0
#define TEST_COMPAT(library, introduced, obsoleted)  0
