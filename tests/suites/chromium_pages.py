"""Loads page.html in three tabs of a real browser, with --sandbox in its own sandbox, and prints what came of it: a line for each
thing that the page has computed, and one for its whole document."""
import hashlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import chromium  # noqa: E402


def main():
	if "--sandbox" in sys.argv:
		chromium.FLAGS = tuple(flag for flag in chromium.FLAGS if flag != "--no-sandbox")
	browser = chromium.Chromium()
	try:
		for number in range(3):
			tab = chromium.Tab(browser)
			tab.open((HERE / "page.html").as_uri())
			tab.wait("document.querySelector('#done') !== null")
			items = tab.value("[...document.querySelectorAll('#results li')].map(li => [li.dataset.name, li.textContent])")
			for name, value in items:
				print(f"tab {number} {name}\t{value}")
			document = tab.value("document.documentElement.outerHTML")
			print(f"tab {number} document\t{hashlib.sha256(document.encode()).hexdigest()[:16]}")
			print(f"tab {number} complaints\t{tab.complaints}", flush=True)
	finally:
		browser.close()


main()
