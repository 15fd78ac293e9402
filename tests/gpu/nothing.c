/* nothing.c -- a library that does nothing; what counts is the name a test gives it. */
int nothing;
