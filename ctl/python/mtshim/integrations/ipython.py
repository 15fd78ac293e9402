"""IPython and Jupyter: `%load_ext mtshim`, then `%mtshim` and `%mtshim trim`."""
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

import mtshim

MB = 1 << 20


@magics_class
class Magic(Magics):  # type: ignore[misc]
	@line_magic("mtshim")
	def show(self, line: str) -> None:
		"""%mtshim prints the kernel's memory and what the library did; %mtshim trim [purge|light|heavy] cleans up first, and
		prints what that returned."""
		words = line.split()
		if words[:1] == ["trim"] and len(words) <= 2:
			try:
				returned = mtshim.trim(*words[1:])
			except ValueError as error:
				raise UsageError(str(error)) from None
			if mtshim.is_active():
				print(f"{returned / MB:.1f} MB returned")
		elif words not in ([], ["stats"]):
			raise UsageError("%mtshim [stats], or %mtshim trim [purge|light|heavy]")
		now = mtshim.stats()
		if not now.active:
			print("mtshim is not active: start Jupyter with `mtshim run -- jupyter lab`")
			return
		print(f"{now.rss_bytes / MB:.1f} MB resident, {now.live_bytes / MB:.1f} MB in use on {mtshim.allocator()}; "
		      f"{now.light_count} light, {now.heavy_count} heavy cleanups, {now.purge_count} purges, "
		      f"{now.purged_bytes / MB:.1f} MB returned")


def load(shell: Any) -> None:
	shell.register_magics(Magic)
