"""mdoc(7) from plain text, from the small markdown of this project's documents, and from help texts."""
import re
import textwrap

SENTENCE = re.compile(r"(?<=[\w)`%*\"'][.!?]) +(?=\S)")
LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
MARK = re.compile(r"`([^`]+)`|\*\*((?:[^*`]|`[^`]*`)+)\*\*|\*([^*\s][^*]*)\*")
WIDTH = 79


def escape(text):
	"""Text for a line of its own or within one. A minus stays a minus, so that options can be copied."""
	return text.replace("\\", "\\e").replace("-", "\\-")


def guard(line):
	"""A line that begins with a dot or an apostrophe would be a macro."""
	return "\\&" + line if line[:1] in (".", "'") else line


def argument(text):
	"""One argument of a macro: quoted, so that no word of it can be a macro."""
	return '"' + escape(text).replace('"', "\\(dq") + '"'


def inline(text):
	"""`code` and **bold** in bold, *emphasis*, links as their text (with the address, where it leads out)."""
	text = LINK.sub(lambda found: f"{found[1]} ({found[2]})" if "://" in found[2] else found[1], text)
	out, end = [], 0
	for found in MARK.finditer(text):
		marked = (found[1] or found[2] or found[3]).replace("`", "")
		out += [escape(text[end:found.start()]), "\\fI" if found[3] else "\\fB",
		        # Names are not hyphenated.
		        " ".join("\\%" + escape(word) for word in marked.split(" ")) if found[1] else escape(marked), "\\fR"]
		end = found.end()
	return "".join(out) + escape(text[end:])


def paragraph(text):
	"""Lines of running text, a sentence a line as mdoc has it."""
	return [guard(line) for sentence in SENTENCE.split(" ".join(text.split()))
	        for line in textwrap.wrap(inline(sentence), WIDTH, break_long_words=False, break_on_hyphens=False)]


def literal(lines):
	return [".Bd -literal -offset indent", *(guard(escape(line.expandtabs())) for line in lines), ".Ed"]


def tagged(items):
	"""A list of (line of a macro's arguments, lines of text)."""
	out = [".Bl -tag -width Ds"]
	for head, body in items:
		out += [f".It {head}", *body]
	return [*out, ".El"]


def _option(word):
	"""--timeout=SECONDS, -o FILE, --watch[=SECONDS], --tree [PID], [--heads=N]; anything else as it is."""
	if word.startswith("[") and word.endswith("]"):
		return f"Oo {_option(word[1:-1])} Oc"
	found = re.fullmatch(r"(--?)([a-z][a-z-]*)(?:(\[)?([= ])(\[)?([^]]*)\]?)?", word)
	if not found:
		return f"Cm {argument(word)}"
	dashes, name, before, joint, after, value = found.groups("")
	flag = ("Fl Fl " if dashes == "--" else "Fl ") + name
	if not value:
		return flag
	value = ("Ns = Ns Ar " if joint == "=" else "Ar ") + argument(value)
	if before or after:
		value = ("Ns " if joint == "=" else "") + f"Oo {value} Oc"
	return f"{flag} {value}"


def option_term(term):
	"""One option or several, with commas or blanks between."""
	parts = re.split(r"(,\s*|\s+(?=\[?--?[a-z]))", term)
	return " ".join("," if part.strip() == "," else _option(part) for part in parts if part.strip())


def help_blocks(blocks):
	"""The details of a command's help (commands.Command.blocks)."""
	out = []
	for kind, content in blocks:
		if kind == "text":
			out += [".Pp", *paragraph(content)]
		elif kind == "literal":
			out += literal([line[2:] for line in content])
		else:
			out += tagged([(option_term(term) if term.startswith("-") else f"Cm {argument(term)}",
			                paragraph(text)) for term, text in content])
	return out


# ---- markdown ----

def _cells(row):
	return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _table(rows):
	"""A terminal is narrow: the first column becomes the term, the others "Heading: cell." below it."""
	heading, body = _cells(rows[0]), [_cells(row) for row in rows[2:]]
	items = []
	for row in body:
		cells = [(name, cell) for name, cell in zip(heading[1:], row[1:]) if cell]
		lines = [line for name, cell in cells
		         for line in (paragraph(cell) if len(heading) == 2 else [*paragraph(f"{name}: {cell}."), ".br"])]
		term = row[0].replace("`", "")
		items.append((f"Sy {argument(term)}", lines[:-1] if lines[-1:] == [".br"] else lines))
	return tagged(items)


def _bullets(text):
	out = [".Bl -bullet"]
	for item in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
		out += [".It", *paragraph(item)]
	return [*out, ".El"]


def markdown(text):
	"""Paragraphs, bullets, tables, indented code and ### headings."""
	out = []
	for block in re.split(r"\n\s*\n", text.strip("\n")):
		lines = block.split("\n")
		if lines[0].startswith("    "):
			out += literal([line[4:] for line in lines])
		elif lines[0].startswith("|"):
			out += _table(lines)
		elif lines[0].startswith("- "):
			out += _bullets(block)
		elif lines[0].startswith("### "):
			out += [f".Ss {argument(lines[0][4:])}"]
		elif not lines[0].startswith(("<!--", "!")):
			out += [".Pp", *paragraph(block)]
	return out


def section(document, heading):
	"""The body of `## heading` of a markdown text; None: there is no such section."""
	found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
	return found and found[1]
