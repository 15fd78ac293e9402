"""What the shim and the fake driver declare of the CUDA Driver API, against a real cuda.h where one is installed."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# scripts/bootstrap takes the newest one from PyPI.
PLACES = [*sorted(map(str, (ROOT / "build/cuda").glob("nvidia/*/include"))), os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include", "/usr/local/cuda/include", "/usr/include"]
# All versions of every function, not only those that the header's macros lead to.
FLAGS = ["-std=c++17", "-D__CUDA_API_VERSION_INTERNAL"]

# Ours, theirs; the results of calls are taken from their names.
VALUES = [
	("shim::MT_CU_ILLEGAL_STATE", "CUDA_ERROR_ILLEGAL_STATE"),
	("shim::MT_CU_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
	("shim::MT_CU_STREAM_CAPTURE_INVALIDATED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
	("shim::MT_CU_STREAM_CAPTURE_WRONG_THREAD", "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
	("shim::MT_CU_CAPTURE_GLOBAL", "CU_STREAM_CAPTURE_MODE_GLOBAL"),
	("shim::MT_CU_CAPTURE_THREAD_LOCAL", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"),
	("shim::MT_CU_CAPTURE_RELAXED", "CU_STREAM_CAPTURE_MODE_RELAXED"),
	("shim::MT_CU_CAPTURE_NONE", "CU_STREAM_CAPTURE_STATUS_NONE"),
	("shim::MT_CU_CAPTURE_ACTIVE", "CU_STREAM_CAPTURE_STATUS_ACTIVE"),
	("shim::MT_CU_EVENT_DISABLE_TIMING", "CU_EVENT_DISABLE_TIMING"),
	("shim::MT_CU_POINTER_CONTEXT", "CU_POINTER_ATTRIBUTE_CONTEXT"),
	("shim::MT_CU_POINTER_MEMORY_TYPE", "CU_POINTER_ATTRIBUTE_MEMORY_TYPE"),
	("shim::MT_CU_POINTER_P2P_TOKENS", "CU_POINTER_ATTRIBUTE_P2P_TOKENS"),
	("shim::MT_CU_POINTER_SYNC_MEMOPS", "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS"),
	("shim::MT_CU_POINTER_DEVICE_ORDINAL", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL"),
	("shim::MT_CU_POINTER_RANGE_START_ADDR", "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR"),
	("shim::MT_CU_POINTER_RANGE_SIZE", "CU_POINTER_ATTRIBUTE_RANGE_SIZE"),
	("shim::MT_CU_POINTER_MAPPING_SIZE", "CU_POINTER_ATTRIBUTE_MAPPING_SIZE"),
	("shim::MT_CU_MEMPOOL_RESERVED_MEM_CURRENT", "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT"),
	("shim::MT_CU_GRAPH_MEM_RESERVED_MEM_CURRENT", "CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT"),
	("shim::MT_CU_DEVICE_PCI_BUS_ID", "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID"),
	("shim::MT_CU_DEVICE_PCI_DEVICE_ID", "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID"),
	("shim::MT_CU_DEVICE_PCI_DOMAIN_ID", "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID"),
]


def results():
	"""The enums of results, ours to theirs, by their names."""
	abi = (ROOT / "shim/gpu/driver.def").read_text()
	for name in re.findall(r"MT_CU_(\w+) = ", re.search(r"enum mt_cu_result \{(.*?)\}", abi, re.S)[1]):
		yield f"shim::MT_CU_{name}", name
	api = (ROOT / "tests/fakecuda/api.h").read_text()
	for name in re.findall(r"(\w+) = ", re.search(r"enum fake_result \{(.*?)\}", api, re.S)[1]):
		short = "SUCCESS" if name == "OK" else "STREAM_" + name if name.startswith("CAPTURE_") else name
		yield f"fake::{name}", short


def fake_rows():
	for file in ("functions.def", "functions_more.def"):
		for kind, symbol in re.findall(r"\b([NZD])\((cu\w+), cu\w+, \d+,", (ROOT / "tests/fakecuda" / file).read_text()):
			yield symbol
			if kind != "N":
				yield symbol + ("_ptsz" if kind == "Z" else "_ptds")


def with_twins(text):
	"""The symbols of the rows in a text of driver.def."""
	rows = re.findall(r"\b(?:X|MT_(PTSZ|PTDS)(?:_FLAG)?)\((?:X, )?(cu\w+),", text)
	return [name for _, name in rows] + [f"{name}_{twin.lower()}" for twin, name in rows if twin]


def shim_rows():
	return with_twins((ROOT / "shim/gpu/driver.def").read_text())


@pytest.fixture(scope="module")
def header():
	for place in PLACES:
		if (pathlib.Path(place) / "cuda.h").exists():
			return place
	pytest.skip("no cuda.h in " + ", ".join(dict.fromkeys(PLACES)))


@pytest.fixture(scope="module")
def declared(header):
	"""The names that this cuda.h declares or gives a value."""
	text = subprocess.run(["g++", *FLAGS, "-E", "-P", f"-I{header}", "-include", "cuda.h", "-x", "c++", "/dev/null"],
	                      capture_output=True, text=True, check=True).stdout
	return set(re.findall(r"\b(cu\w+)\s*\(", text)) | set(re.findall(r"\b(CUDA?_\w+)\b", text))


def compile_against(header, tmp_path, fake, shim, values):
	lines = ["#define CHECK_FAKE " + " ".join(f"CHECK(fake, {name})" for name in fake),
	         "#define CHECK_SHIM " + " ".join(f"CHECK(shim, {name})" for name in shim),
	         "#define CHECK_VALUES " + " ".join(f"EQUAL({ours}, {theirs})" for ours, theirs in values)]
	(tmp_path / "cuda_abi_names.h").write_text("\n".join(lines) + "\n")
	return subprocess.run(["g++", *FLAGS, "-fsyntax-only", f"-I{header}", f"-I{tmp_path}", f"-I{ROOT / 'shim'}",
	                       f"-I{ROOT / 'tests/fakecuda'}", str(ROOT / "tests/gpu/cuda_abi.cc")],
	                      capture_output=True, text=True)


def test_the_declarations_are_those_of_cuda_h(header, declared, tmp_path):
	fake = [name for name in fake_rows() if name in declared]
	shim = [name for name in shim_rows() if name in declared]
	values = VALUES + [(ours, "CUDA_" + name if name == "SUCCESS" else "CUDA_ERROR_" + name) for ours, name in results()]
	values = [(ours, theirs) for ours, theirs in values if theirs in declared]
	# A header that declares next to nothing would prove as much.
	assert len(fake) > 150 and len(shim) > 50 and len(values) > 40

	done = compile_against(header, tmp_path, fake, shim, values)

	assert done.returncode == 0, "\n".join(re.findall(r"static assertion failed: .*", done.stderr)) or done.stderr


def test_a_wrong_declaration_would_be_seen(header, tmp_path):
	done = compile_against(header, tmp_path, [], [], [("shim::MT_CU_NOT_READY", "CUDA_ERROR_NOT_FOUND")])

	assert done.returncode != 0 and "MT_CU_NOT_READY is not CUDA_ERROR_NOT_FOUND" in done.stderr


def twins(text):
	"""{name of a function: its symbols now, with the one for the per-thread default stream}."""
	symbols = {name: [symbol] for name, symbol in re.findall(r"#define (cu\w+)\s+(cu\w+)[ \t]*$", text, re.M)}
	for name, kind, symbol in re.findall(r"#define (cu\w+)\s+__CUDA_API_(PTSZ|PTDS)\((cu\w+)\)", text):
		symbols[name] = [symbol, f"{symbol}_{kind.lower()}"]
	return symbols


def listed(text):
	"""The symbols of the functions for which cuda.h lists CUDA_ERROR_OUT_OF_MEMORY."""
	comment_and_name = r"/\*\*((?:(?!\*/).)*?)\*/\s*(?:__CUDA_DEPRECATED\s+)?CUresult\s+CUDAAPI\s+(cu\w+)\s*\("
	names = {name for comment, name in re.findall(comment_and_name, text, re.S) if "CUDA_ERROR_OUT_OF_MEMORY" in comment}
	known = twins(text)
	return {symbol for name in names for symbol in known.get(name, [name])}


def retried():
	"""The symbols whose wrappers try again after an out-of-memory: tables, and calls of try_driver and retry."""
	table = (ROOT / "shim/gpu/driver.def").read_text()
	rows = {name: re.search(rf"#define {name}\(X\)(.*?)\n\n", table, re.S)[1]
	        for name in ("MT_DRIVER_RETRIED", "MT_DRIVER_COPIES", "MT_DRIVER_CONTEXT_CREATES", "MT_DRIVER_ALLOCATIONS",
	                     "MT_DRIVER_FREES", "MT_DRIVER_EXPORTS", "MT_DRIVER_UNSEEN")}
	found = {symbol for text in rows.values() for symbol in with_twins(text)} | {"cuMemAlloc_v2"}
	text = (ROOT / "shim/gpu/entries.c").read_text()
	found |= set(re.findall(r"_WRAPPER\(\s*(cu\w+),", text))
	found |= set(re.findall(r"\b(?:try_driver|retry)\((?:[^,;]|\([^)]*\))*,[^,;]*,\s*(cu\w+),", text))
	return found


def test_every_call_that_cuda_h_lists_with_out_of_memory_is_tried_again(header):
	text = (pathlib.Path(header) / "cuda.h").read_text(errors="replace")
	names = listed(text)

	assert len(names) > 60, "the comments of this cuda.h are read otherwise"
	assert names - retried() == set()


def test_a_call_that_is_not_tried_again_would_be_seen(header):
	text = (pathlib.Path(header) / "cuda.h").read_text(errors="replace")
	text += "\n/**\n * ::CUDA_ERROR_OUT_OF_MEMORY\n */\nCUresult CUDAAPI cuNewThing(int one);\n"

	assert listed(text) - retried() == {"cuNewThing"}


# Of these older versions the memory is only not counted.
NOT_COUNTED = {("cuMemHostRegister", 4000, ""), ("cuIpcOpenMemHandle", 4010, "")}
TABLES = ["COPIES", "CAPTURE_BEGINS", "CONTEXT_CREATES", "ALLOCATIONS", "FREES", "EXPORTS"]


def wrapped_versions():
	"""{(name without suffix, version, twin)} of these tables' rows."""
	source = '#include "gpu/driver.def"\n#define ROW(name, parameters, version, ...) ROW name version\n' + \
		"\n".join(f"MT_DRIVER_{table}(ROW)" for table in TABLES)
	text = subprocess.run(["gcc", "-E", "-P", f"-I{ROOT / 'shim'}", "-x", "c", "-"], input=source, capture_output=True, text=True, check=True).stdout
	rows = re.findall(r"ROW (cu\w+?)(?:_v\d)?(?:_(pt[sd][sz]))? [( ]*(\d+)", text)
	return {(name, max(int(version), 7000 if twin else 0), twin) for name, twin, version in rows}


def test_each_version_of_what_makes_memory_known_elsewhere_is_wrapped(header):
	"""cudaTypedefs.h has also those that cuda.h no longer leads to. Before 3.2 device pointers had 32 bits."""
	typedefs = pathlib.Path(header) / "cudaTypedefs.h"
	if not typedefs.exists():
		pytest.skip("no cudaTypedefs.h")
	wrapped = wrapped_versions()
	names = {name for name, _, _ in wrapped}
	known = {(name, int(version), twin) for name, version, twin in
	         re.findall(r"PFN_(cu\w+?)_v(\d+)(?:_(pt[sd][sz]))?\)", typedefs.read_text()) if name in names and int(version) >= 3020}

	assert len(wrapped) > 80 and len(known) > 80
	assert known - wrapped - NOT_COUNTED == set()
