"""A server of federated learning over many rounds. Its memory at round ends does not grow; without the shim it does."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_rounds_do_not_pile_up_memory(shim, method):
	if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
		pytest.skip("PyTorch is not there")

	done = subprocess.run([PYTHON, "bench/run.py", "soak", "--strict", "--label", "soak-quick", "--json", "-", "--",
	                       "--quick", "--method", method], cwd=ROOT, env=dict(os.environ, MTSHIM=str(shim)),
	                      capture_output=True, text=True, timeout=600)

	assert done.returncode == 0, done.stdout + done.stderr
	assert done.stdout.count("PASS: ") == 2
