#!/usr/bin/env python3
"""The functions of shim/gpu that a cuMemFree enters whose block stays in the pool, and the longest chain of files that include each other.

  rooms.py [--build DIR] [--list]

The pool is compiled once more, without optimisation and with a hook at each function; functions of headers, which are inlined, are not
counted. DIR has the archive of the unit tests (`make test-programs`)."""
import argparse
import functools
import pathlib
import re
import shlex
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
POOL = ("blocks", "capture", "context", "fence", "pool", "release")
PROGRAM = r"""
#include <stdio.h>
#include "gpu/pool.h"
#include "null_driver.h"
#include "no_rescue.h"
#define HOOK __attribute__((no_instrument_function))
static int is_on, count;
static void *seen[1000];
HOOK void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	for (int i = 0; is_on && i < count; i++)
		if (seen[i] == function)
			return;
	if (is_on)
		seen[count++] = function;
}
HOOK void __cyg_profile_func_exit(void *function, void *caller) { (void)function; (void)caller; }
static enum mt_pool_mode mode(bool *out_waits) { *out_waits = WAITS; return MT_POOL_POOL; }
static int state(int device, unsigned *flags, int *active) { (void)device; *flags = 0; *active = 1; return 0; }
static int retain(struct CUctx_st **context, int device) { (void)device; *context = null_context; return 0; }
static int release(int device) { (void)device; return 0; }
int main(void)
{
	uint64_t dptr;
	int result;

	struct mt_driver driver = null_driver;

	driver.cuDevicePrimaryCtxGetState = state;
	driver.cuDevicePrimaryCtxRetain = retain;
	driver.cuDevicePrimaryCtxRelease_v2 = release;
	mt_pool_start(&driver, mode);
	null_context = (struct CUctx_st *)0x1000;
	for (int i = 0; i < 4; i++) {
		mt_pool_alloc(&dptr, 4096);
		is_on = i == 3;
		mt_pool_free(dptr, &result);
		is_on = 0;
	}
	for (int i = 0; i < count; i++)
		printf("%p\n", seen[i]);
	return result;
}
"""


def entered(build, waits, folder):
	flags = shlex.split("-std=gnu11 -O0 -g -DMT_DEBUG -fno-pie -no-pie -Ishim -I. -Itests/lib") + [f"-I{build}/gen"]
	(folder / "rooms.c").write_text(PROGRAM)
	subprocess.run(["gcc", *flags, "-finstrument-functions", f"-DWAITS={waits}", "-o", folder / "rooms", folder / "rooms.c",
	                *(f"shim/gpu/{name}.c" for name in POOL), "-Wl,--start-group", build / "unit-obj/libunit.a",
	                build / "libjemalloc_renamed.a", "-Wl,--end-group", *"-ldl -lm -lpthread -ljansson -lz".split()], cwd=ROOT, check=True)
	at = subprocess.run([folder / "rooms"], stdout=subprocess.PIPE, check=True, text=True).stdout
	named = subprocess.run(["addr2line", "-f", "-s", "-e", folder / "rooms"], input=at, stdout=subprocess.PIPE, check=True, text=True)
	lines = named.stdout.split("\n")
	return [f"{name} ({file})" for name, file in zip(lines[::2], (place.split(":")[0] for place in lines[1::2])) if is_of_pool(name, file)]


def is_of_pool(name, file):
	"""Not of a header, nor of this program."""
	source = ROOT / "shim/gpu" / file
	return file.endswith(".c") and source.exists() and re.search(rf"^[a-z_].*\b{name}\(", source.read_text(), re.MULTILINE)


def floors():
	includes = {}
	for file in sorted((ROOT / "shim/gpu").iterdir()):
		found = {pathlib.PurePosixPath(name).stem for name in re.findall(r'^#include "(gpu/[^"]+)"', file.read_text(), re.MULTILINE)}
		includes.setdefault(file.stem, set()).update(found - {file.stem})

	@functools.cache
	def chain(unit):
		return (unit, *max(map(chain, sorted(includes[unit])), key=len, default=()))
	return max(map(chain, includes), key=len)


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
	parser.add_argument("--list", action="store_true")
	given = parser.parse_args()
	with tempfile.TemporaryDirectory() as folder:
		for waits in (1, 0):
			rooms = entered(given.build.resolve(), waits, pathlib.Path(folder))
			print(f"{'wait' if waits else 'async':6}{len(rooms):3} functions")
			if given.list:
				print("", *rooms, sep="\n  ")
	chain = floors()
	print(f"floors{len(chain):3} files: {', '.join(chain)}")


if __name__ == "__main__":
	main()
