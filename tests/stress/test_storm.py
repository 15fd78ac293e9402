"""The storm of storm.py, short; `make check-storm` is the long one."""
import pathlib
import re

STORM = pathlib.Path(__file__).with_name("storm.py")
SECONDS = 12


def test_no_byte_is_lost_and_nothing_hangs_in_a_storm_of_everything(run, shim, mtctl):
	got = run([STORM, "--seconds", SECONDS, "--shim", shim, "--mtctl", mtctl], timeout=240)

	assert got.returncode == 0, got.stdout + got.stderr
	assert len(re.findall(r"0 wrong bytes, 0 bad ends, no hang$", got.stdout, re.MULTILINE)) == 2, got.stdout
