"""scripts/check-words, over trees made for it."""
import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check-words"


@pytest.mark.parametrize("text, is_found", [
	("int stash_take(void);\n", True), ("/* The Reaper purges. */\n", True), ("int kind, stashing_weather;\n", False)])
def test_a_word_of_the_dialect_is_found_alone_and_in_a_name_but_not_within_a_word(tmp_path, text, is_found):
	(tmp_path / "scripts").mkdir()
	shutil.copy(SCRIPT, tmp_path / "scripts")
	(tmp_path / "shim").mkdir()
	(tmp_path / "shim/a.c").write_text("\n" + text)

	done = subprocess.run([tmp_path / "scripts/check-words"], capture_output=True, text=True)

	assert (done.returncode == 1, "shim/a.c:2" in done.stdout) == (is_found, is_found)
