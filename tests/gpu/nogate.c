/* nogate.c -- in the place of the capture gate (tests/tests.mk): no capture is ever open. */
#include "gpu/capture.h"

bool __wrap_mt_capture_gate_enter(void);
void __wrap_mt_capture_gate_leave(void);
bool __wrap_mt_capture_is_open(void);

bool __wrap_mt_capture_gate_enter(void)
{
	return true;
}

void __wrap_mt_capture_gate_leave(void)
{
}

bool __wrap_mt_capture_is_open(void)
{
	return false;
}
