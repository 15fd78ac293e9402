"""The completion of mtctl for zsh."""

HEAD = r'''#compdef mtctl
# zsh completion for mtctl; made by scripts/generate/completion from mtctl's own help.

_mtctl_processes() {
	local line
	local -a processes
	for line in ${(f)"$(_call_program processes ${(q)mtctl_program} ps --pids 2>/dev/null)"}; do
		processes+=("${line%%$'\t'*}:${line#*$'\t'}")
	done
	_describe -t processes 'process under the shim' processes
}

_mtctl_setting() {
	if compset -P '*='; then
		local name=${IPREFIX%=}
		case ${name##*[[:space:]]} in
@values@		esac
	else
		_describe -t settings 'setting' mtctl_settings -S =
	fi
}

_mtctl_commands() {
	_describe -t commands 'command of mtctl' mtctl_commands
}

_mtctl() {
	local curcontext=$curcontext state line mtctl_program=$words[1]
	local -A opt_args
	local -a mtctl_commands=(
@commands@	)
	local -a mtctl_settings=(
@settings@	)
	_arguments -C '(- *)'{-h,--help}'[list the commands]' '(- *)--version[print the version]' \
		'1:command:->command' '*::argument:->argument' && return
	case $state in
	command) _mtctl_commands ;;
	argument)
		curcontext=${curcontext%:*:*}:mtctl-$words[1]:
		case $words[1] in
		help) _arguments '1:command:_mtctl_commands' ;;
@arguments@		esac ;;
	esac
}

_mtctl "$@"
'''


def quote(text):
	return "'" + text.replace("'", "'\\''") + "'"


def bracket(text):
	"""Within [..] of a specification of _arguments, and before its colons."""
	for character in "\\[]:":
		text = text.replace(character, "\\" + character)
	return text


def action(option):
	return {"words": f"({' '.join(option.words)})", "files": "_files", "folders": "_files -/",
	        "processes": "_mtctl_processes", "": " "}[option.wants()]


def option_spec(option):
	joint = ("=-" if option.optional else "=") if option.value and option.name.startswith("--") else ""
	value = f"{':' * (2 if option.optional else 1)}{bracket(option.value)}:{action(option)}" if option.value else ""
	return quote(f"{option.name}{joint}[{bracket(option.help)}]{value}")


def argument_specs(command):
	if command.takes("program..."):
		return ["'(-):program: _command_names -e'", "'*::argument: _normal'"]
	if command.takes("NAME=VALUE"):
		return ["'1:process:_mtctl_processes'", "'*:setting:_mtctl_setting'"]
	if command.takes("PID") and command.takes("FILE"):
		return [quote("*:process or file:{_alternative 'processes:process:_mtctl_processes' 'files:file:_files'}")]
	if command.takes("PID"):
		return ["'*:process:_mtctl_processes'"]
	return ["'*:file:_files'"] if command.takes("FILE") else []


def command_case(command):
	specs = ["'(- *)--help[say more]'", *map(option_spec, command.options), *argument_specs(command)]
	return f"\t\t{command.name})\n\t\t\t_arguments " + " \\\n\t\t\t\t".join(specs) + " ;;\n"


def described(name, text):
	return "\t\t" + quote(f"{name}:{text}") + "\n"


def script(mtctl):
	live = [setting for setting in mtctl.settings if setting["when"] == "live"]
	values = "".join(f"\t\t{setting['name']}) compadd -- {' '.join(mtctl.setting_values(setting))} ;;\n"
	                 for setting in live if mtctl.setting_values(setting))
	parts = {"commands": "".join(described(command.name, command.summary) for command in mtctl.commands)
	                     + described("help", "what a command does"),
	         "settings": "".join(described(setting["name"], setting["help"]) for setting in live),
	         "values": values, "arguments": "".join(map(command_case, mtctl.commands))}
	text = HEAD
	for name, part in parts.items():
		text = text.replace(f"@{name}@", part)
	return text
