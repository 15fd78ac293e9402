"""The commands, options and settings of an mtctl, as its own `help` and `options --json` have them: what the man pages and
the completions are made from. The shape of a help text is the contract of mt_command_line_read (ctl/command.h):

  usage: mtctl NAME ARGUMENTS       what stands there in capitals says what an argument is: PID, FILE, DIR, NAME=VALUE
  summary
                                    then paragraphs, and lists of items that begin in the third column:
    --option=VALUE  text            a|b|c in the place of VALUE are words to choose from
                    more of the text, further to the right
"""
import json
import re
import subprocess

LISTED = re.compile(r"  ([a-z][a-z-]*) +\S")
ITEM = re.compile(r" {2,5}(\S.*?\S|\S) {2,}(\S.*)")
OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:(\[)?[= ]((?:<[^>]*>|[^\s,\[\]|]|\|(?=\S))+)\]?)?")


class Option:
	"""One option: `value` is what it takes ("" nothing), `words` what may be chosen there."""

	def __init__(self, name, value="", help="", optional=False):
		self.name, self.value, self.help, self.optional = name, value, help, optional
		self.words = value.split("|") if "|" in value and "." not in value else []

	def wants(self):
		"""What a shell may offer for its value: "words", "files", "folders", "processes", "" for nothing."""
		if self.words:
			return "words"
		if self.value == "FILE" or "." in self.value:
			return "files"
		return {"DIR": "folders", "PID": "processes"}.get(self.value, "")


class Command:
	"""`blocks` are the details of its help in order: ("text", str), ("literal", [line]), ("items", [(term, text)])."""

	def __init__(self, name, arguments, summary, blocks):
		self.name, self.arguments, self.summary, self.blocks = name, arguments, summary, blocks
		self.options = _options_of(arguments, blocks)

	def takes(self, what):
		"""Whether an argument of this kind (PID, FILE, NAME=VALUE, program...) stands in the usage line."""
		return re.search(rf"(?<![\w=-]){re.escape(what)}(?!\w)", OPTION.sub(" ", self.arguments)) is not None


def parse_options(term):
	"""The options that a term or a usage line names. In "-o, --output=FILE" both take it."""
	options = [Option(name, value, optional=bool(bracket)) for name, bracket, value in
	           (found.groups("") for found in OPTION.finditer(term)
	            if found.start() == 0 or term[found.start() - 1] in " ,[|")]
	for short, long in zip(options, options[1:]):
		if re.search(rf"{short.name}, {long.name}", term):
			short.value, short.words = long.value, long.words
	return options


def _options_of(arguments, blocks):
	found = {}
	for kind, content in blocks:
		for term, text in content if kind == "items" else []:
			for option in parse_options(term) if term.startswith("-") else []:
				option.help = text
				found[option.name] = option
	for option in parse_options(arguments):
		found.setdefault(option.name, option)
	return list(found.values())


def _split_item(line):
	"""Term and text; of a row of more columns than two the last one is the text."""
	term, text = ITEM.fullmatch(line).groups()
	if not term.startswith("-") and "  " in text:
		more, text = re.split(r" {2,}", text, maxsplit=1)
		term += " " + more
	return term, text


def parse_blocks(lines):
	blocks = []
	fresh = True
	for line in lines:
		indent = len(line) - len(line.lstrip())
		last = blocks[-1] if blocks and not fresh else (None, None)
		if not line.strip():
			fresh = True
			continue
		if last[0] == "items" and indent >= 6:
			term, text = last[1][-1]
			last[1][-1] = (term, f"{text} {line.strip()}".strip())
		elif ITEM.fullmatch(line) or re.fullmatch(r" {2,5}--?[a-z]\S*(?: [A-Z]+)?", line):
			item = _split_item(line) if ITEM.fullmatch(line) else (line.strip(), "")
			if last[0] == "items" or (fresh and blocks and blocks[-1][0] == "items"):
				blocks[-1][1].append(item)
			else:
				blocks.append(("items", [item]))
		elif last[0] == "literal" and indent >= 6 > len(last[1][-1]) - len(last[1][-1].lstrip()):
			# A term that leaves no room for its text on its own line.
			term = last[1].pop().strip()
			if not last[1]:
				blocks.pop()
			blocks.append(("items", [(term, line.strip())]))
		elif indent >= 2:
			if last[0] == "literal":
				last[1].append(line)
			else:
				blocks.append(("literal", [line]))
		elif last[0] == "text":
			blocks[-1] = ("text", f"{last[1]} {line}")
		else:
			blocks.append(("text", line))
		fresh = False
	return blocks


def parse_help(name, text):
	lines = text.splitlines()
	usage = re.fullmatch(rf"usage: mtctl {re.escape(name)} ?(.*)", lines[0])
	if not usage or len(lines) < 2:
		raise SystemExit(f"mtctl help {name}: no usage line and summary: {text[:200]!r}")
	return Command(name, usage[1], lines[1], parse_blocks(lines[2:]))


class Mtctl:
	"""What one mtctl says of itself. A command whose help cannot be had is an error: a page without it is wrong."""

	def __init__(self, program):
		self.program = program
		overview = self._ask("help").splitlines()
		self.version = overview[0].split()[1]
		names = [found[1] for found in map(LISTED.match, overview) if found and found[1] != "mtctl"]
		self.commands = [parse_help(name, self._ask("help", name)) for name in names]
		known = json.loads(self._ask("options", "--json"))
		self.settings = known["options"]
		self.aliases = {alias["environment"]: alias["name"] for alias in known["aliases"]}
		self.presets = {preset["name"]: {one["name"]: one["value"] for one in preset["settings"]}
		                for preset in json.loads(self._ask("presets", "--json"))["presets"]}
		self._share_settings()
		self._refine_settings()

	def _share_settings(self):
		"""Each command that starts a program takes the settings, which the help of `run` alone lists."""
		starting = [command for command in self.commands if command.takes("program...")]
		shared = {option.name: option for command in starting for option in command.options if option.value == "VALUE"}
		for command in starting:
			own = {option.name for option in command.options}
			command.options += [option for name, option in shared.items() if name not in own]

	def _refine_settings(self):
		"""The table of settings knows the values of those of `run` and the like better than their help does."""
		for option in (option for command in self.commands for option in command.options if option.value == "VALUE"):
			for setting in self.settings:
				if option.name == "--" + setting["name"].replace("_", "-"):
					option.words, option.help = self.setting_values(setting), setting["help"]

	def _ask(self, *words):
		done = subprocess.run([self.program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
		if done.returncode != 0:
			asked = " ".join([self.program, *words])
			raise SystemExit(f"{asked}: exit code {done.returncode}: {done.stderr.strip()}")
		return done.stdout

	@staticmethod
	def setting_values(setting):
		"""The words to choose from, [] where it is a number or a text."""
		if setting["kind"] == "choice":
			return setting["words"].split("|")
		return {"bool": ["on", "off"], "count": ["auto"], "round": ["mark", "signal", "auto", "timer:"],
		        "signal": ["USR1", "USR2", "none"]}.get(setting["kind"], [])
