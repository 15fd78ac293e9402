"""A checkout usually lies in a home that no other user can enter. Tests that give something to another user pass there too."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import leftovers
from people import NOBODY, needs_root
from places import PYTHON, ROOT

# One of each kind: servers that refuse to run as root, programs that another user runs, and a script of the tree.
TESTS = ("clients/test_nginx.py", "clients/test_php.py", "clients/test_postgresql.py", "heap/test_memlock.py",
         "compat/test_strangers.py", "fault/test_refusals.py", "integration/test_distros.py")
CHOSEN = "(nginx or fpm or leaves_no_files_of_ended or limit_may or privileg or rights or no_thread or not_root) and not system"


@pytest.fixture(params=["a user", pytest.param("root", marks=needs_root)])
def words(request):
	"""The number of a user, and the words that run a command as this user."""
	if request.param == "root" or os.geteuid() != 0:
		return os.geteuid(), []
	return NOBODY, ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@pytest.fixture
def checkout(words, shim, mtctl):
	"""A copy of the tree in a home of mode 0700 whose path has a blank."""
	place = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/tmp"))
	home = place / "a home"
	tree = home / "tree"
	for name in ("scripts", "shim", "tests"):
		shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
	shutil.copy(ROOT / "pytest.ini", tree)
	(tree / "build").mkdir()
	for built in (shim, mtctl):
		shutil.copy(built, tree / "build" / built.name)
	home.chmod(0o700)
	subprocess.run(["chown", "-R", str(words[0]), place], check=True)
	yield tree
	shutil.rmtree(place, ignore_errors=True)


@pytest.mark.long  # it runs tests of the other files once more
def test_programs_of_other_users_run_the_same_from_a_home_that_only_its_owner_can_enter(checkout, words, bare, run):
	done = run([*words[1], "env", f"HOME={checkout.parent}", "PYTHONDONTWRITEBYTECODE=1", "scripts/in-plain-path", PYTHON, "-m", "pytest",
	            "-n", "4", "-k", CHOSEN, *(f"tests/{name}" for name in TESTS)], bare, timeout=300, cwd=checkout)

	assert done.returncode == 0, done.stdout + done.stderr
	assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 1 and "cannot read" not in done.stdout
