"""scripts/check-components: what it complains of, in trees made for it."""
import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check-components"


@pytest.fixture
def check(tmp_path):
	"""check({path: text}): the exit code of the script over this tree and what it prints."""
	def run(files):
		(tmp_path / "scripts").mkdir()
		shutil.copy(SCRIPT, tmp_path / "scripts")
		# An exception is one of the real tree: here it has nothing to except.
		script = tmp_path / "scripts" / SCRIPT.name
		head, rest = script.read_text().split("EXCEPTIONS = {\n", 1)
		script.write_text(head + "EXCEPTIONS = {\n}\n" + rest.split("\n}\n", 1)[1])
		for path, text in files.items():
			(tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
			(tmp_path / path).write_text(text)
		done = subprocess.run([script], capture_output=True, text=True)
		return done.returncode, done.stdout
	return run


def test_a_folder_may_include_what_the_table_lets_it(check):
	assert check({"ctl/cmd/ps.c": '#include "ctl/process/process.h"\n', "ctl/process/process.h": '#include "ctl/output/text.h"\n',
	              "ctl/output/text.h": ""}) == (0, "3 passed, 0 failed\n")


def test_a_lower_folder_may_not_include_a_command(check):
	code, text = check({"ctl/process/process.c": '#include "ctl/cmd/ps.h"\n', "ctl/cmd/ps.h": ""})
	assert code == 1
	assert "ctl/process/process.c: ctl/process/ may not include ctl/cmd/ps.h" in text


def test_one_program_of_the_user_interface_may_not_include_another(check):
	code, text = check({"ctl/ui/top/app.c": '#include "ctl/ui/plot/canvas.h"\n', "ctl/ui/plot/canvas.h": ""})
	assert code == 1
	assert "ctl/ui/top/app.c: ctl/ui/top/ may not include ctl/ui/plot/canvas.h" in text


def test_mtctl_sees_layouts_of_the_shim_and_nothing_else_of_it(check):
	code, text = check({"ctl/process/a.c": '#include "core/stats_layout.h"\n#include "core/worker.h"\n',
	                    "shim/core/stats_layout.h": "", "shim/core/worker.h": ""})
	assert code == 1
	assert "may not include shim/core/worker.h" in text and "stats_layout" not in text


def test_a_cycle_between_a_source_and_a_header_is_a_finding(check):
	code, text = check({"ctl/output/a.h": "", "ctl/output/a.c": '#include "ctl/output/a.h"\n#include "ctl/output/b.h"\n',
	                    "ctl/output/b.h": '#include "ctl/output/a.h"\n'})
	assert code == 1
	assert "a cycle: ctl/output/a, ctl/output/b" in text


def test_a_folder_without_a_rule_is_a_finding(check):
	code, text = check({"ctl/other/a.c": ""})
	assert code == 1
	assert "ctl/other/a.c: the folder has no rule" in text
