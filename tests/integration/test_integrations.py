"""mtshim.integrations without the network: the pytest plugin and the hooks that import nothing. With the frameworks themselves:
tests/frameworks."""
import argparse
import ast
import importlib.util

import pytest

from places import PYTHON, ROOT

PACKAGE = ROOT / "ctl/python"
MODULES = sorted(path.stem for path in (PACKAGE / "mtshim/integrations").glob("[a-z]*.py"))
TESTS = '''
import pytest

kept = []

class Node:
	pass

@pytest.fixture(scope="session")
def wide():
	return bytearray(60 << 20)

@pytest.fixture(scope="session")
def inner():
	return bytearray(30 << 20)

@pytest.fixture(scope="module")
def late(inner):
	return bytearray(30 << 20)

@pytest.fixture
def bag():
	blocks = []
	yield blocks
	blocks.clear()

def test_with_a_fixture_of_the_session(wide):
	pass

def test_that_asks_for_a_fixture_of_the_module(request):
	request.getfixturevalue("late")

def test_that_leaves_one_block():
	kept.append(bytearray(30 << 20))

def test_that_leaves_small_objects():
	kept.append([str(number) * 5 for number in range(300_000)])

def test_whose_garbage_is_a_cycle():
	node = Node()
	node.me, node.block = node, bytearray(40 << 20)

def test_whose_fixture_frees(bag):
	bag.append(bytearray(40 << 20))

def test_that_fails_with_a_block_in_its_traceback():
	block = bytearray(40 << 20)
	assert len(block) == len(kept)
'''
WATCHED = [PYTHON, "-m", "pytest", "-p", "mtshim.integrations.pytest", "-p", "no:cacheprovider", "--mtshim-leak-mb=10"]


@pytest.fixture
def watch(run, tmp_path):
	(tmp_path / "test_some.py").write_text(TESTS)
	return lambda environment: run(WATCHED, dict(environment, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1"), cwd=tmp_path)


@pytest.mark.slow
def test_the_pytest_plugin_fails_the_tests_that_leave_memory_and_no_other(watch, env):
	done = watch(env())

	assert done.returncode == 1
	assert "mtshim: --mtshim-leak-mb=10: on" in done.stdout
	errors = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("ERROR ", "FAILED "))]
	assert errors == ["FAILED test_some.py::test_that_fails_with_a_block_in_its_traceback", "ERROR test_some.py::test_that_leaves_one_block",
	                  "ERROR test_some.py::test_that_leaves_small_objects"]


@pytest.mark.slow
def test_the_pytest_plugin_says_where_it_has_no_effect(watch, bare):
	done = watch(bare)

	assert "mtshim: --mtshim-leak-mb=10: no effect, since libmtshim.so is not active" in done.stdout
	assert "1 failed, 6 passed in" in done.stdout


def test_the_limit_of_the_pytest_plugin_must_be_above_nothing():
	spec = importlib.util.spec_from_file_location("plugin", PACKAGE / "mtshim/integrations/pytest.py")
	plugin = importlib.util.module_from_spec(spec)
	with pytest.MonkeyPatch.context() as patch:
		patch.syspath_prepend(PACKAGE)
		spec.loader.exec_module(plugin)

	assert plugin.megabytes("0.5") == 0.5
	for text in ("0", "-1", "nan", "inf"):
		with pytest.raises(argparse.ArgumentTypeError):
			plugin.megabytes(text)


@pytest.fixture
def python(run):
	"""python(text, env): what a program prints that has the package."""
	def call(text, environment):
		done = run([PYTHON, "-c", text], dict(environment, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1"))
		assert done.returncode == 0, done.stderr
		return done.stdout.strip()
	return call


def test_importing_the_package_imports_no_framework_and_no_integration(python, bare):
	loaded = python("import sys, mtshim; mtshim.stats(); print([name for name in sys.modules if name.startswith('mtshim.')])", bare)

	assert loaded == "['mtshim._library', 'mtshim._stats']"


def test_what_counts_calls_can_be_copied_and_pickled(python, bare):
	"""Frameworks copy and pickle the callbacks that they are given."""
	assert python("import copy, pickle; from mtshim.integrations import Every; every = Every(3); every(); copy.deepcopy(every)(); "
	              "print(pickle.loads(pickle.dumps(every))._calls)", bare) == "1"


@pytest.mark.parametrize("module", MODULES)
def test_the_modules_are_in_the_language_of_python_3_8(module):
	ast.parse((PACKAGE / f"mtshim/integrations/{module}.py").read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_without_its_framework_says_which_one_is_missing(python, bare, module):
	text = f"""
import sys
sys.modules.update(dict.fromkeys(["celery", "transformers", "lightning", "pytorch_lightning", "nvflare", "IPython", "pytest"]))
try:
	import mtshim.integrations.{module}
	print("imported")
except ModuleNotFoundError as error:
	print(error.name.split(".")[0])
"""
	needs = {"huggingface": "transformers", "lightning": "pytorch_lightning", "ipython": "IPython", "asgi": "imported", "gunicorn": "imported",
	         "flower": "imported"}

	assert python(text, bare) == needs.get(module, module)


MOD = """
import types, mtshim
from mtshim.integrations.flower import count_rounds, round_mod

def reply(message, context):
	if context == "fails":
		raise RuntimeError
	return message

def send(kind, context=None):
	message = types.SimpleNamespace(metadata=types.SimpleNamespace(message_type=kind))
	assert round_mod(message, context, reply) is message

class Strategy:
	def aggregate_evaluate(self, server_round, replies):
		return [server_round, *replies]

send("train")
send("train.lora")
send("evaluate")
send("training")
try:
	send("train", "fails")
except RuntimeError:
	pass
strategy = count_rounds(Strategy())
print(strategy.aggregate_evaluate(1, replies=["a"]), mtshim.stats().rounds_count)
"""


@pytest.mark.parametrize("library, rounds", [(False, 0), (True, 4)])
def test_the_mod_and_the_strategy_of_flower_end_rounds_and_change_nothing(python, bare, env, library, rounds):
	"""Stand-ins for Flower's message and strategy; tests/frameworks has the real ones."""
	assert python(MOD, env() if library else bare) == f"[1, 'a'] {rounds}"


def test_every_counts_calls_and_refuses_less_than_one(python, env):
	text = """
import mtshim
from mtshim.integrations import Every
every = Every(3)
for _ in range(8):
	every()
print(mtshim.stats().rounds_count)
try:
	Every(0)
except ValueError as error:
	print(error)
"""
	assert python(text, env()) == "2\nevery is 0; it must be 1 or more"


ASGI = """
import asyncio, mtshim
from mtshim.integrations.asgi import RoundMiddleware

async def application(scope, receive, send):
	if scope["type"] == "websocket":
		raise RuntimeError
	await send(scope["type"])

async def send(message):
	sent.append(message)

async def ask():
	served = RoundMiddleware(application, every=2)
	for kind in ("lifespan", "http", "http", "http", "websocket", "http"):
		try:
			await served({"type": kind}, None, send)
		except RuntimeError:
			sent.append("failed")

sent = []
asyncio.run(ask())
print(*sent, mtshim.stats().rounds_count)
"""


@pytest.mark.parametrize("library, rounds", [(False, 0), (True, 2)])
def test_the_asgi_middleware_ends_a_round_each_second_request_and_changes_nothing(python, bare, env, library, rounds):
	"""Five requests, one of which fails."""
	assert python(ASGI, env() if library else bare) == f"lifespan http http http failed http {rounds}"
