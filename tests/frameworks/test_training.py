"""Callbacks of transformers and Lightning: three epochs of four batches."""
import re

import pytest


def rounds(done):
	assert done.returncode == 0, done.stderr
	return int(re.search(r"^rounds (\d+)$", done.stderr, re.MULTILINE)[1])


@pytest.mark.parametrize("steps, expected", [(0, 3), (5, 2)])
def test_a_trainer_of_transformers_ends_a_round_each_epoch_or_so_many_steps(commands, both, programs, tmp_path, steps, expected):
	without, under = both([commands("torch") / "python", programs / "huggingface_train.py", tmp_path, steps],
	                      lambda: {"HF_HUB_OFFLINE": "1"})

	assert (rounds(without), rounds(under)) == (0, expected)


@pytest.mark.parametrize("batches, expected", [(0, 3), (5, 2)])
def test_a_trainer_of_lightning_ends_a_round_each_epoch_or_so_many_batches(commands, both, programs, tmp_path, batches, expected):
	without, under = both([commands("torch") / "python", programs / "lightning_fit.py", batches], cwd=tmp_path)

	assert (rounds(without), rounds(under)) == (0, expected)


COMPILED = """
import sys
import torch
import mtshim

step = mtshim.round_scope()(torch.compile(lambda x: (x * 2).sum(), fullgraph=True, backend="eager"))
print(float(step(torch.ones(4))), float(step(torch.ones(8))))
print("rounds", mtshim.stats().rounds_count, file=sys.stderr)
"""


def test_a_round_ends_around_a_function_that_torch_compiles_as_one_graph(commands, both):
	without, under = both([commands("torch") / "python", "-c", COMPILED])

	assert (rounds(without), rounds(under)) == (0, 2) and under.stdout == "8.0 16.0\n"
