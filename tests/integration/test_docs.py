"""The documents: their links lead somewhere, the files and commands that they name exist, their generated parts are current, and they
keep the lengths that were set for them."""
import functools
import pathlib
import re
import subprocess
from xml.etree import ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(path for folder in ("docs", "bench", "packaging") for path in (ROOT / folder).rglob("*.md"))])
# The folders of files that a document may name from the root, and those of shim/ that it may name without "shim/".
TOP = ("bench", "ctl", "docs", "scripts", "shim", "tests", ".ci")
COMPONENTS = ("compat", "core", "gpu", "heap", "pressure", "purge", "python", "signal", "sys")
SVG = "{http://www.w3.org/2000/svg}"
ENDINGS = "c|cc|def|h|html|in|json|map|md|mk|py|S|sh|sum|svg|toml|txt|yaml|yml"
LINK = re.compile(r"(?<!!)!?\[(?:[^\[\]]|\[[^]]*\])*\]\(([^()\s]+)\)")


def name_of(page):
	return page.relative_to(ROOT).as_posix()


def prose(page):
	"""A page without its blocks of code."""
	text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
	return "\n".join("" if line.startswith("    ") else line for line in text.splitlines())


@functools.lru_cache(maxsize=None)
def anchors(page):
	"""What GitHub makes of a page's headings."""
	found = set()
	for heading in re.findall(r"^#{1,6} +(.*?) *$", prose(page), re.MULTILINE):
		plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
		slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
		number = sum(1 for other in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
		found.add(f"{slug}-{number}" if slug in found else slug)
	return found


def broken_links(page):
	for link in LINK.findall(prose(page)):
		if re.match(r"[a-z]+:", link):
			continue
		path, _, anchor = link.partition("#")
		target = (page.parent / path).resolve() if path else page
		if not target.exists():
			yield f"{link}: no such file"
		elif anchor and target.suffix == ".md" and anchor not in anchors(target):
			yield f"{link}: no such heading"


def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_exist():
	assert {name_of(page): found for page in PAGES if (found := list(broken_links(page)))} == {}


def named_files(page):
	"""Names in `code` that are those of a file, wherever they are written from."""
	for words in re.findall(r"`([^`]+)`", prose(page)):
		for name in re.findall(rf"(?<![\w./*{{-])((?:[\w@.-]+/)+[\w@.-]+\.(?:{ENDINGS}))(?![\w./*])", words):
			top = name.split("/")[0]
			if re.search(r"\b(COMPONENT|NAME|DATE)\b", name):  # a pattern for several
				continue
			if top in TOP:
				yield name, ROOT / name
			elif top in COMPONENTS:
				yield name, ROOT / "shim" / name


def test_every_file_that_a_page_names_exists():
	assert {name_of(page): gone for page in PAGES if (gone := [name for name, path in named_files(page) if not path.exists()])} == {}


def named_functions(page):
	"""Names in `code` that are followed by () or begin with mt_."""
	for words in re.findall(r"`([^`]+)`", prose(page)):
		if re.fullmatch(r"\w+\(\)", words) or re.fullmatch(r"mt_\w+", words):
			yield words.removesuffix("()")


@functools.lru_cache(maxsize=None)
def sources():
	return "\n".join(path.read_text() for folder in ("shim", "ctl") for path in (ROOT / folder).rglob("*")
	                 if path.suffix in (".c", ".h", ".def", ".S"))


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md", "docs/api.md"])
def test_every_function_that_a_page_names_is_one(name):
	named = set(named_functions(ROOT / name))

	assert named and [function for function in named if not re.search(rf"\b{function}\b *\(", sources())] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md"])
def test_every_macro_that_a_page_names_is_one(name):
	named = {words for text in re.findall(r"`([^`]+)`", prose(ROOT / name)) for words in re.findall(r"^MT_\w+", text)}
	known = sources() + (ROOT / "shim/core/options.def").read_text().upper()

	assert named and [macro for macro in named if not re.search(rf"\b({macro}|{macro.removeprefix('MT_')})\b", known)] == []


CPYTHON = {"ceval_gil.c", "pycore_interpframe_structs.h"}


def test_every_file_that_a_comment_names_exists():
	"""As in: the contract is in core/state.h; see cgroup.c."""
	files = [path for folder in ("shim", "ctl", "tests", "scripts", "bench") for path in (ROOT / folder).rglob("*.*")]
	names = {path.name for path in files} | {path.name for path in pathlib.Path("/usr/include").rglob("*.h")} | CPYTHON
	folders = "|".join({path.parent.name for path in files if path.relative_to(ROOT).parts[0] in ("shim", "ctl")})
	missing = []
	for path in files:
		if path.suffix not in (".c", ".h", ".def", ".S", ".mk") or path.relative_to(ROOT).parts[0] == "tests":
			continue
		comments = " ".join(re.findall(r"/\*.*?\*/|^#[^!].*?$", path.read_text(), re.DOTALL | re.MULTILINE))
		for folder, name in re.findall(rf"(?<![\w/.<])((?:{folders})/)?([a-z_0-9]+\.(?:c|h|def))\b(?!>)", comments):
			if not any(str(file).endswith("/" + folder + name) for file in files) if folder else name not in names:
				missing.append(f"{path.relative_to(ROOT)}: {folder}{name}")
	assert missing == []


def test_every_function_of_the_map_is_defined_in_the_file_that_is_named_with_it():
	"""As in: `f()` in `shim/core/x.c`, `f()` of ..., (`f()`, `shim/core/x.c`)."""
	words = " ".join(prose(ROOT / "CONTRIBUTING.md").split())
	pairs = set(re.findall(r"`(\w+)\(\)`(?: of| in|,) `([\w/]+\.c)`", words)) - {("free", "shim/heap/entries.c")}  # of a table of names

	assert len(pairs) > 10
	assert [pair for pair in pairs if not re.search(rf"^\w[^;\n]*\b{pair[0]}\(", (ROOT / pair[1]).read_text(), re.MULTILINE)] == []


def test_the_table_of_locks_is_in_the_order_in_which_they_are_taken():
	ranks = re.findall(r"^\s*X\((\w+),", (ROOT / "shim/sys/lock_ranks.def").read_text(), re.MULTILINE)
	table = (ROOT / "docs/design.md").read_text().partition("| lock | held over |\n")[2].partition("\n\n")[0]

	assert ranks and re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))) == ranks


def make_targets():
	done = subprocess.run(["make", "-npq", "-C", ROOT], capture_output=True, text=True)
	return set(re.findall(r"^([\w][\w.-]*):", done.stdout, re.MULTILINE))


def test_every_target_of_make_that_a_page_names_exists():
	targets = make_targets()
	assert {"check", "demo", "bench"} <= targets
	for page in PAGES:
		named = {word for words in re.findall(r"`(?:[A-Z_]+=\S+ )*make ((?:-k )?[^`=]*)`", prose(page))
		         for word in words.split() if re.fullmatch(r"[a-z][\w-]*[a-z]", word)}
		assert named <= targets, page


def test_every_target_that_make_help_names_exists():
	told = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True).stdout
	named = set(re.findall(r"(?<!-)\b((?:check|fault|gpu|soak|bench)-[a-z]+\b|(?<=make )[a-z]+\b(?!-))", told))

	assert {"check", "demo", "check-fast", "soak-quick"} <= named <= make_targets() | {"check-"}


def test_the_tables_of_settings_are_those_of_the_generator():
	done = subprocess.run([ROOT / "scripts/options-table", "--check", ROOT / "docs/settings.md"], capture_output=True, text=True)

	assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_table_of_settings_that_is_out_of_date_is_found_and_brought_up_to_date(tmp_path):
	page = tmp_path / "settings.md"
	page.write_text((ROOT / "docs/settings.md").read_text().replace("| `MT_IDLE_MS` | 10 to 600000 ms |", "| `MT_IDLE_MS` | 1 to 2 |"))

	def table(mode):
		return subprocess.run([ROOT / "scripts/options-table", mode, page], capture_output=True, text=True)

	assert table("--check").returncode == 1 and "+| `MT_IDLE_MS` | 10 to 600000 ms |" in table("--check").stdout
	assert table("--update").returncode == 0
	assert page.read_text() == (ROOT / "docs/settings.md").read_text()


def test_the_pages_of_commands_have_what_mtctl_says_of_them(mtctl):
	"""`make figures` writes them."""
	done = subprocess.run([ROOT / "scripts/generate/mtctl-pages", mtctl], capture_output=True, text=True)

	assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_documents_together_have_no_more_than_45_000_words():
	"""Without decisions, which are read one at a time, and the generated tables of bench/results."""
	pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/mtctl").glob("*.md")]

	assert sum(len(page.read_text().split()) for page in pages) <= 45000


# One thing has one word, in what mtctl says: CONTRIBUTING.md has the table.
NOT_SAID = r"(giv(e|es|en|ing)|gave) (it |them )?back|test trim|DIRTY|clean-?ups? records?"


def test_mtctl_says_one_word_for_one_thing():
	texts = [(name_of(path), text[0]) for path in (ROOT / "ctl").rglob("*.[ch]") for text in re.finditer(r'"[^"\n]*"', path.read_text())]

	assert len(texts) > 1000 and [one for one in texts if re.search(rf"\b({NOT_SAID})\b", one[1])] == []


@pytest.mark.parametrize("name, most_words", [("README.md", 1500), ("docs/design.md", 4000), ("docs/gpu.md", 1500), ("docs/reliability.md", 1500)])
def test_a_page_keeps_its_length(name, most_words):
	text = (ROOT / name).read_text()

	assert len(text.split()) <= most_words
	assert name != "README.md" or len(text.splitlines()) <= 200


def test_the_page_of_results_has_no_more_than_1200_words():
	"""The bars of its tables are no words."""
	assert len(re.findall(r"\S*\w\S*", (ROOT / "docs/benchmarks.md").read_text())) <= 1200


def test_every_page_is_reached_from_the_readme():
	"""Directly, or by way of a page that is."""
	reached, waiting = set(), [ROOT / "README.md"]
	while waiting:
		page = waiting.pop()
		if page in reached or page.suffix != ".md":
			continue
		reached.add(page)
		links = (link.partition("#")[0] for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link))
		waiting += [path for path in ((page.parent / link).resolve() for link in links if link) if path.exists()]

	assert {name_of(page) for page in PAGES} == {name_of(page) for page in reached}


def test_a_picture_of_a_terminal_has_its_size_its_text_and_its_colours():
	screen = "\x1b[1m\x1b[44m top \x1b[0m\x1b[32m██▄\x1b[39m a<b \n─┤x\n"
	drawn = subprocess.run(["/usr/bin/python3", ROOT / "scripts/generate/screen.py", "12x2", "a & b"], input=screen, capture_output=True,
	                       encoding="utf-8", check=True).stdout
	root = ElementTree.fromstring(drawn)
	texts = {text.text: text for text in root.iter(f"{SVG}text")}
	blocks = [rect for rect in root.iter(f"{SVG}rect") if rect.get("fill") == "#98c379"]

	assert root.findtext(f"{SVG}title") == "a & b" and set(texts) == {"top", "a<b", "x"}
	assert texts["top"].get("font-weight") == "bold" and not texts["x"].get("font-weight")
	assert [float(rect.get("height")) for rect in blocks] == [17, 8.5] and float(blocks[0].get("width")) == 2 * 8.4
	assert float(root.get("width")) == 116.8 and len(list(root.iter(f"{SVG}path"))) == 2


@pytest.mark.parametrize("size", ["80x24", "160x50"])
def test_the_pictures_of_top_have_the_pane_and_the_size_in_their_name(size):
	root = ElementTree.parse(ROOT / f"docs/screens/top-{size}.svg").getroot()
	columns, rows = map(int, size.split("x"))
	words = " ".join(text.text for text in root.iter(f"{SVG}text"))

	assert (float(root.get("width")), float(root.get("height"))) == (round(columns * 8.4 + 16, 2), rows * 17 + 16)
	assert "train.py --rounds 50" in words and "MB" in words and "reusable" in words
