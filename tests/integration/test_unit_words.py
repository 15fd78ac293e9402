"""The stand-in for Criterion, with which the unit tests are built for ThreadSanitizer."""
import re

from mtctl_helpers import ROOT

STAND_IN = ROOT / "tests" / "tsan" / "criterion" / "criterion.h"


def test_the_stand_in_for_criterion_has_every_word_that_the_unit_tests_use():
	"""make check-tsan is not part of CI: a word that it lacks would be found by nobody."""
	known = set(re.findall(r"#define (cr_\w+)", STAND_IN.read_text()))
	used = {}
	for path in sorted((ROOT / "tests" / "unit").glob("*.[ch]")):
		for word in re.findall(r"\b(cr_\w+)\(", path.read_text()):
			used.setdefault(word, path.name)
	assert used
	assert {word: name for word, name in used.items() if word not in known} == {}
