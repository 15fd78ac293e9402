"""Ranks: which process of a job is which, from the environment to `mtctl ps` and `stat`."""
import json

import pytest

from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)


@pytest.mark.parametrize("variables, rank, source, shown", [
	({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0"}, "3", "RANK", "\nrank       3 of 8 (RANK)\n"),
	({"SLURM_PROCID": "17"}, "17", "SLURM_PROCID", "\nrank       17 (SLURM_PROCID)\n"),
	({"RANK": "\x1b[31m", "OMPI_COMM_WORLD_RANK": "0"}, "0", "OMPI_COMM_WORLD_RANK", "\nrank       0 (OMPI_COMM_WORLD_RANK)\n")])
def test_a_process_tells_the_rank_of_its_environment(puppet, env, awake, control, variables, rank, source, shown):
	settings = dict(env(MIN_MB=0), **variables)

	seen = awake(puppet(settings).pid, settings)

	assert (seen["rank"], seen["rank_source"]) == (rank, source)
	assert seen["world_size"] == (int(variables["WORLD_SIZE"]) if "WORLD_SIZE" in variables else None)
	assert shown in control(settings, "stat", seen["pid"], "--cached").stdout
	listed = json.loads(control(settings, "ps", "--json").stdout)["processes"]
	assert [one["rank"] for one in listed if one["pid"] == seen["pid"]] == [rank]


def test_without_ranks_there_is_no_word_of_them(fake, ctl):
	pid = fake()

	assert json.loads(ctl("stat", pid, "--json").stdout)["rank"] is None
	assert "\nrank " not in ctl("stat", pid).stdout


def test_ps_has_a_column_as_soon_as_one_process_has_a_rank(fake, ctl):
	ranked, plain_one = fake(rank="12"), fake()

	lines = [line.split() for line in ctl("ps").stdout.splitlines()]

	assert lines[0][:3] == ["PID", "RANK", "STATE"]
	assert next(line for line in lines if line[0] == str(ranked))[1:3] == ["12", "awake"]
	assert next(line for line in lines if line[0] == str(plain_one))[1:3] == ["-", "awake"]


@pytest.mark.parametrize("rank", ["\x1b[31m", "1x", "-1", "1\n2", "3\"} 1 "])
def test_what_a_file_calls_a_rank_and_is_no_number_is_none(fake, ctl, rank):
	assert json.loads(ctl("stat", fake(rank=rank), "--json").stdout)["rank"] is None
