"""mtctl and a real CUDA program under the real shim, on the fake driver."""
import re

import pytest

from cuda_helpers import MB, cuda, fill # noqa: F401


def test_stat_says_what_the_program_holds_and_what_is_cached(cuda, stats, wait_for):
	one = cuda()
	fill(one, 40, 24)

	def settled():
		seen = stats(one.pid, one.env)
		return seen if seen["devices"] and seen["gpu_reserved_bytes"] == 64 * MB else None
	seen = wait_for(settled, what="64 MB reserved")
	(device,) = seen["devices"]

	assert (seen["cuda"], device["mode"], device["ordinal"]) == ("pool", "pool", 0)
	assert device["name"] and seen["driver_version"] == 13000
	assert (device["allocated_bytes"], device["requested_bytes"], device["blocks_count"]) == (40 * MB, 40 * MB, 10)
	assert device["idle_bytes"] + device["pending_bytes"] == 24 * MB
	assert (device["allocated_peak_bytes"], device["reserved_peak_bytes"]) == (64 * MB, 64 * MB)
	assert (device["num_device_alloc"], device["num_ooms"]) == (16, 0)
	assert device["total_bytes"] == 1000 * MB and 0 < device["free_bytes"] < 1000 * MB


def test_trim_gives_the_idle_blocks_back_and_says_so(cuda, control, stats):
	one = cuda()
	fill(one, 40, 24)

	got = control(one.env, "trim", one.pid)
	(device,) = stats(one.pid, one.env)["devices"]

	assert got.returncode == 0, got.stdout + got.stderr
	assert re.search(r"^  GPU in use +\d+\.\d MB +\d+\.\d MB +-24\.0 MB$", got.stdout, re.MULTILINE), got.stdout
	assert "GPU caches emptied" in got.stdout
	assert one.number("used 0") == device["reserved_bytes"] == 40 * MB


def test_a_light_trim_leaves_the_gpu_alone(cuda, control):
	one = cuda()
	fill(one, 4, 24)

	assert "GPU" not in control(one.env, "trim", "--light", one.pid).stdout
	assert one.number("used 0") == 28 * MB


def test_reset_peak_starts_the_peaks_of_devices_anew(cuda, control, stats):
	one = cuda()
	fill(one, 40, 24)
	assert control(one.env, "trim", one.pid).returncode == 0

	got = control(one.env, "reset-peak", one.pid)

	assert "GPU allocated at 40.0 MB, reserved at 40.0 MB" in got.stdout
	(device,) = stats(one.pid, one.env)["devices"]
	assert (device["allocated_peak_bytes"], device["reserved_peak_bytes"]) == (40 * MB, 40 * MB)


def test_an_out_of_memory_error_leaves_its_report(cuda, control, stats, wait_for):
	one = cuda()
	fill(one, 900, 40, each_mb=20)
	assert re.fullmatch(
		r"no out-of-memory error has reached this program, by its figures of [\d:.]+; one counts after 5 s, unless the program overcomes it\n",
		control(one.env, "stat", one.pid, "--oom").stdout)

	assert one.number(f"alloc 100 {200 * MB}") == 2
	assert one.number(f"alloc 101 {MB}") == 0, "and goes on without"

	(oom,) = wait_for(lambda: stats(one.pid, one.env)["ooms"], what="a report")
	assert (oom["function"], oom["asked_bytes"], oom["device"]) == ("cuMemAlloc", 200 * MB, 0)
	assert (oom["allocated_bytes"], oom["total_bytes"]) == (900 * MB, 1000 * MB)
	assert (oom["idle_bytes"], oom["num_alloc_retries"], oom["num_ooms"]) == (0, 1, 1), "the idle blocks went first"
	assert oom["cause"] == "live tensors"
	got = control(one.env, "stat", one.pid, "--oom")
	assert got.returncode == 0 and "cuMemAlloc asked for 200.0 MB on GPU 0\n" in got.stdout
	assert "  likely cause: live tensors\n  -> " in got.stdout
	assert "warn  1 out-of-memory error has reached the program" in control(one.env, "doctor", one.pid).stdout


def test_ps_shows_what_a_program_holds_of_the_gpu(cuda, control, stats):
	one = cuda()
	fill(one, 40, 0)
	stats(one.pid, one.env) # ps takes the figures as they were last written

	rows = control(one.env, "ps").stdout.splitlines()

	assert "GPU" in rows[0].split()
	assert re.search(r" 40\.0 MB  \S*cuda_puppet", next(row for row in rows if f"{one.pid} " in row))


@pytest.mark.parametrize("mode", ["pool", "account"])
def test_doctor_says_the_mode(cuda, control, wait_for, mode):
	one = cuda(CUDA=mode)
	fill(one, 4, 4)

	def doctor():
		return control(one.env, "doctor", one.pid).stdout
	wait_for(lambda: re.search(rf"^ok    GPU 0 \(.+\): .* MB free of 1000\.0 MB, mode {mode}$", doctor(), re.MULTILINE))

	assert f"ok    CUDA: {mode}, driver 13.0\n" in doctor()


def test_before_the_first_allocation_the_mode_is_undecided_and_said_to_be(cuda, control, stats):
	one = cuda()

	(device,) = stats(one.pid, one.env)["devices"]

	assert device["mode"] == "undecided"
	assert ", mode undecided" in control(one.env, "stat", "--all", one.pid).stdout
	assert ", mode undecided" in control(one.env, "doctor", one.pid).stdout
	assert one.number(f"alloc 0 {MB}") == 0
	assert stats(one.pid, one.env)["devices"][0]["mode"] == "pool"


def test_with_cuda_off_a_program_has_no_gpu_figures(cuda, stats):
	one = cuda(CUDA="off", MIN_MB=0)
	fill(one, 4, 4)

	seen = stats(one.pid, one.env)

	assert seen["devices"] == [] and seen["gpu_reserved_bytes"] == 0
