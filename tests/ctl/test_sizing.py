"""mtctl budget and fit: the figures as they are printed, wrong uses, and where fit takes free memory from."""
import json
import re

import pytest

from places import BUILT
from mtctl_helpers import MB, NOTHING, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

LLAMA = "--params 7e9 --seq 2048 --batch 4 --layers 32 --d-model 4096 --mixed --checkpoint".split()
PARTS = ["weights", "gradients", "optimizer", "activations", "kv_cache"]
GPT = "--params 175B --seq 2048 --batch 1 --d-model 12288 --mixed --checkpoint --gpus 8".split()


def line(text, name):
	return re.search(rf"^{name} +([\d.]+) GiB", text, re.MULTILINE)[1]


@pytest.mark.parametrize("words, total, more", [(LLAMA, "106.31", "122.25"), ([*GPT, "--layers=96"], "326.53", "375.50"),
                                                ([*GPT, "--layers-per-gpu=12"], "326.53", "375.50")])
def test_the_published_budgets_come_out(ctl, words, total, more):
	got = ctl("budget", *words)

	assert (got.returncode, line(got.stdout, "total"), line(got.stdout, "with 15 %")) == (0, total, more)
	seen = json.loads(ctl("budget", *words, "--json").stdout)
	assert (f"{seen['total_bytes'] / 2 ** 30:.2f}", f"{seen['with_overhead_bytes'] / 2 ** 30:.2f}") == (total, more)
	assert sum(seen[name + "_bytes"] for name in PARTS) == seen["total_bytes"] and {one["name"] for one in seen["formulas"]} == set(PARTS)


def test_every_line_has_its_formula_and_the_activations_their_source(ctl):
	got = ctl("budget", *[word for word in LLAMA if word != "--checkpoint"]).stdout

	assert "Korthikanti et al. 2022" in got and "s b d (34 + 5 a s / d) x 32 layers" in got
	for name in ("weights", "gradients", "optimizer", "KV cache"):
		assert re.search(rf"^{name} +[\d.]+ GiB   \w+", got, re.MULTILINE)


@pytest.mark.parametrize("words, note", [
	([*GPT, "--layers=12"], "if 12 are the layers of one GPU, say --layers-per-gpu 12"),
	(["--params=70e9", *LLAMA[2:]], "have about 6.44e+09 parameters"),
	([*LLAMA, "--heads=33"], "33 heads do not divide d 4096")])
def test_what_does_not_fit_together_is_noted(ctl, words, note):
	got = ctl("budget", *words)

	assert got.returncode == 0 and re.search(rf"^note: .*{re.escape(note)}", got.stdout, re.MULTILINE)


@pytest.mark.parametrize("words", [
	"--params 1e30", "--params -7e9", "--params nan", "--params 0x7", "--params 7Q", "--params 0", "", "extra", "--params 7e9 extra",
	"--params 7e9 --layers 1.5", "--params 7e9 --optimizer adamx", "--params 7e9 --zero 4 --gpus 8", "--params 7e9 --zero 1",
	"--layers 32", "--params 7e9 --gpus 99999999", "--params 7e9 --inference --checkpoint", "--no-such",
	"--params 7e9 --seq 1e9 --batch 1e9 --layers 32 --d-model 4096", "--params 7e9 --heads 8 --kv-heads 16",
	"--params 7e9 --gpus 8 --layers 32 --layers-per-gpu 4", "--params 7e9 --layers-per-gpu 4"])
def test_a_budget_that_makes_no_sense_is_refused(ctl, words):
	got = ctl("budget", *words.split())

	assert (got.returncode, got.stdout) == (USAGE, "") and got.stderr.count("\n") == 1


def test_budget_tells_how_many_such_models_fit(ctl):
	words = ["budget", *LLAMA, "--vram=400G", "--share=100"]
	seen = json.loads(ctl(*words, "--json").stdout)

	assert (seen["clients_count"], seen["source"], f"{seen['with_overhead_bytes'] / 2 ** 30:.2f}") == (3, "--vram", "122.25")
	assert "3 clients in parallel: 100 % of 400.0 GB free (--vram) over 122.3 GB, at most 8" in ctl(*words).stdout
	assert ctl("budget", *LLAMA, "--vram=16G").returncode == NOTHING


def test_a_gpu_has_whole_layers_and_its_note_says_how_many(ctl):
	shape = "--params=7e9 --seq=2048 --batch=4 --d-model=4096".split()
	of = {gpus: ctl("budget", *shape, "--layers=32", f"--gpus={gpus}").stdout for gpus in (3, 32, 64)}

	assert "x 7e+09 x 11 of 32 layers" in of[3] and "x 11 layers" in of[3] and "note: 3 GPUs do not divide 32 layers" in of[3]
	assert line(of[64], "total") == line(of[32], "total") and "x 1 layers" in of[64] and "64 GPUs are more than 32 layers" in of[64]
	assert "64 GPUs are more than 32 layers" in ctl("budget", "--params=7e9", "--layers=32", "--gpus=64").stdout


def test_no_number_of_clients_and_no_whole_total_come_of_a_part_that_is_not_known(ctl):
	small, large = (ctl("budget", f"--params={params}", "--vram=80G") for params in ("1e9", "1e12"))
	said = json.loads(ctl("budget", "--params=1e9", "--vram=80G", "--json").stdout)

	assert "How many clients fit is not known without --seq" in small.stdout and small.returncode == NOTHING
	assert re.search(r"^total .*on one GPU, and what is not known$", small.stdout, re.MULTILINE), small.stdout
	assert said["clients_count"] is None and said["activations_bytes"] is None and said["free_bytes"] == 80 << 30
	assert "0 clients in parallel" in large.stdout and large.returncode == NOTHING


def test_fit_is_another_name_of_budget(ctl):
	for words in (LLAMA, [*LLAMA, "--vram=400G"], ["--vram=16G", "--model-mb=500"], ["--model-mb=500", *LLAMA]):
		budget, fit = ctl("budget", *words, "--json"), ctl("fit", *words, "--json")

		assert (budget.returncode, budget.stdout, budget.stderr) == (fit.returncode, fit.stdout, fit.stderr)


# ---- fit ----

def table_of(text):
	rows = [row.split() for row in text.splitlines() if re.match(r" *\d+\.\d MB ", row)]
	return {row[0]: list(map(int, row[2:])) for row in rows}


def test_the_table_is_60_percent_over_4_models_and_8_at_most(ctl):
	table = table_of(ctl("fit").stdout)

	assert table["12.3"] == [8, 8, 8, 8]
	assert table["100.0"] == [6, 8, 8, 8]
	assert table["250.0"] == [2, 4, 7, 8]
	assert table["500.0"] == [1, 2, 3, 4]
	assert table["1024.0"] == [0, 1, 1, 2]


@pytest.mark.parametrize("words, clients", [(["--vram=16G", "--model-mb=500"], 4), (["--vram=16GiB", "--model-mb=12.3"], 8),
                                            (["--vram=16384M", "--model-mb=500", "--share=100"], 8),
                                            (["--vram=16G", "--model-mb=10", "--cap=100"], 100),
                                            (["--vram=4G", "--model-mb=1024"], 0)])
def test_clients_for_a_gpu_and_a_model(ctl, words, clients):
	got = ctl("fit", *words, "--json")

	assert json.loads(got.stdout)["clients_count"] == clients
	assert got.returncode == (0 if clients else NOTHING)
	assert ctl("fit", *words).stdout.startswith(f"{clients} clients in parallel: ")


def test_a_model_of_ones_own_has_its_row_in_the_table(ctl):
	text = ctl("fit", "--vram=16G", "--model-mb=400").stdout

	assert list(table_of(text)) == ["400.0", "12.3", "100.0", "250.0", "500.0", "1024.0"]


def test_free_memory_is_asked_of_nvml(ctl):
	got = ctl("fit", "--model-mb=100", "--json", LD_LIBRARY_PATH=str(BUILT / "fakecuda"), FAKECUDA_MEMORY_MB="2000",
	          FAKECUDA_OTHER_MB="500")

	seen = json.loads(got.stdout)
	assert seen["source"].startswith("NVML, GPU 0") and seen["free_bytes"] == 1500 * MB and seen["clients_count"] == 2


@pytest.mark.alone
def test_where_there_is_no_nvml_a_process_is_believed(ctl, fake):
	device = {"ordinal": 0, "free_bytes": 4000 * MB, "total_bytes": 8000 * MB, "name": "\x1b[31mGPU", "mode": "pool"}
	pid = fake(cuda="pool", devices=[device], values={"gpu_alloc_count": 1, "gpu_devices_count": 1})

	got = ctl("fit", "--model-mb=500", "--json", "--device=0")

	seen = json.loads(got.stdout)
	assert (seen["clients_count"], seen["source"], seen["free_bytes"]) == (1, f"process {pid}, GPU 0, ?[31mGPU", 4000 * MB)


@pytest.mark.parametrize("words", [
	"--vram=16", "--vram=x", "--vram=-1G", "--vram=1e999G", "--model-mb=0", "--model-mb=1G", "--share=0", "--share=101", "--cap=0",
	"--cap=x", "--device=-1", "extra", "--vram=1G --device=0"])
def test_a_fit_that_makes_no_sense_is_refused(ctl, words):
	got = ctl("fit", *words.split())

	assert (got.returncode, got.stdout) == (USAGE, "") and got.stderr.count("\n") == 1
