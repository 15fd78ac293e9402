"""The completion of mtctl for fish."""

HEAD = r'''# fish completion for mtctl; made by scripts/generate/completion from mtctl's own help.

function __mtctl_bare
	test (count (commandline -opc)) -eq 1
end

function __mtctl_is
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = "$argv[1]"
end

function __mtctl_has_process
	string match -qr '^[0-9]+$' -- (commandline -opc)[3..-1]
end

function __mtctl_processes
	set -l words (commandline -opc)
	command $words[1] ps --pids 2>/dev/null
end

complete -c mtctl -f
complete -c mtctl -n __mtctl_bare -l version -d 'print the version'
complete -c mtctl -l help -d 'say more'
'''


def quote(text):
	return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def line(condition, *words):
	return f"complete -c mtctl -n {quote(condition)} {' '.join(words)}\n"


def option_line(command, option):
	flag = f"-l {option.name[2:]}" if option.name.startswith("--") else f"-s {option.name[1:]}"
	wants = option.wants() if option.value else None
	value = {None: [], "words": ["-x", "-a", quote(" ".join(option.words))], "files": ["-r", "-F"],
	         "folders": ["-x", "-a", "'(__fish_complete_directories)'"],
	         "processes": ["-x", "-a", "'(__mtctl_processes)'"], "": ["-x"]}[wants]
	# fish has no word for a value that may be left out: such an option is offered without.
	if option.optional and wants == "":
		value = []
	return line(f"__mtctl_is {command.name}", flag, *value, "-d", quote(option.help))


def settings_function(mtctl):
	"""NAME=VALUE of every live setting, NAME= where the value is a number."""
	rows = [f"{setting['name']}={value}\t{setting['help']}" for setting in mtctl.settings if setting["when"] == "live"
	        for value in mtctl.setting_values(setting) or [""]]
	return "\nfunction __mtctl_settings\n" + "".join(f"\techo {quote(row)}\n" for row in rows) + "end\n"


def argument_lines(command):
	condition = f"__mtctl_is {command.name}"
	if command.takes("program..."):
		return line(condition, "-x", "-a", "'(__fish_complete_subcommand --fcs-skip=2)'")
	if command.takes("NAME=VALUE"):
		return line(f"{condition}; and not __mtctl_has_process", "-k", "-a", "'(__mtctl_processes)'") + \
			line(f"{condition}; and __mtctl_has_process", "-a", "'(__mtctl_settings)'")
	lines = line(condition, "-k", "-a", "'(__mtctl_processes)'") if command.takes("PID") else ""
	return lines + (line(condition, "-F") if command.takes("FILE") else "")


def script(mtctl):
	parts = [HEAD, settings_function(mtctl), line("__mtctl_bare", "-a", "help", "-d", quote("what a command does"))]
	for command in mtctl.commands:
		parts.append("\n" + line("__mtctl_bare", "-a", command.name, "-d", quote(command.summary)))
		parts += [option_line(command, option) for option in command.options]
		parts.append(argument_lines(command))
	names = " ".join(command.name for command in mtctl.commands)
	return "".join(parts) + "\n" + line("__mtctl_is help", "-a", quote(names))
