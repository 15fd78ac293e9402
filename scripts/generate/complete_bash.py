"""The completion of mtctl for bash, with the functions of the bash-completion package."""

BODY = r'''
# A line for each shimmed process. The command is shown where bash lists what there is, and never becomes a part of the line:
# what two of these have in common ends within the numbers. (COMP_TYPE: 37 and 42 insert the words themselves.)
_mtctl_processes()
{
	local pid command
	while IFS=$'\t' read -r pid command; do
		[[ $pid == "$cur"* ]] && COMPREPLY+=("$pid  ($command)")
	done < <(command "${words[0]/#\~/$HOME}" ps --pids 2>/dev/null)
	if ((${#COMPREPLY[@]} == 1)) || [[ $COMP_TYPE == 37 || $COMP_TYPE == 42 ]]; then
		COMPREPLY=("${COMPREPLY[@]%% *}")
	fi
}

_mtctl_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
	[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
}

# Where the program of `run` begins, with what stands before it; empty: not yet.
_mtctl_program_at()
{
	local i
	for ((i = 2; i < cword; i++)); do
		case ${words[i]} in
		--) echo $((i + 1)); return ;;
		--*=*) ;;
		--*) [[ " $(_mtctl_options run) " == *" ${words[i]}= "* ]] && ((i++)) ;;
		-*) ;;
		*) break ;;
		esac
	done
	((i > cword)) || [[ ${words[i]} == -* ]] || echo "$i"
}

# Completes the program that begins at this word, as it would be completed without mtctl. bash-completion before 2.12 counts the
# words as readline has split them, at "=" too.
_mtctl_program()
{
	if declare -F _comp_command_offset > /dev/null; then
		_comp_command_offset "$1"
		return
	fi
	local i j=0 word
	for ((i = 0; i < $1; i++)); do
		word=${COMP_WORDS[j++]}
		while [[ $word != "${words[i]}" ]] && ((j < COMP_CWORD)); do word+=${COMP_WORDS[j++]}; done
	done
	_command_offset "$j"
}

# NAME=VALUE of a live setting; after the "=" only the value is the word to complete.
_mtctl_setting()
{
	if [[ $cur != *=* ]]; then
		_mtctl_words "$(_mtctl_settings)"
		return
	fi
	local name=${cur%%=*}
	cur=${cur#*=}
	_mtctl_words "$(_mtctl_setting_values "$name")"
}

# Whether what is completed is the value of the option before it.
_mtctl_wants_value()
{
	[[ $split == true || " $(_mtctl_options "$1") " == *" $prev= "* || $prev == -? ]] && [[ $(_mtctl_kind "$1" "$prev") ]]
}

_mtctl_value()
{
	local kind
	kind=$(_mtctl_kind "$1" "$2")
	case $kind in
	files) _filedir ;;
	folders) _filedir -d ;;
	processes) _mtctl_processes ;;
	words\ *) _mtctl_words "${kind#words }" ;;
	esac
}

_mtctl_argument()
{
	case $(_mtctl_arguments "$1") in
	*setting*)
		if [[ ${words[*]:2:cword-2} =~ (^|\ )[0-9]+($|\ ) ]]; then _mtctl_setting; else _mtctl_processes; fi ;;
	*processes*files*) _mtctl_processes; _filedir ;;
	*processes*) _mtctl_processes ;;
	*files*) _filedir ;;
	esac
}

_mtctl()
{
	local cur prev words cword split at
	_init_completion -s || return
	local name=${words[1]}
	if ((cword == 1)); then
		_mtctl_words "$(_mtctl_commands) help --help --version"
	elif [[ $name == help ]]; then
		((cword == 2)) && _mtctl_words "$(_mtctl_commands)"
	elif [[ $name == run ]] && at=$(_mtctl_program_at) && [[ $at ]]; then
		_mtctl_program "$at"
	elif _mtctl_wants_value "$name"; then
		_mtctl_value "$name" "$prev"
	elif [[ $cur == -* ]]; then
		_mtctl_words "$(_mtctl_options "$name") --help"
	else
		_mtctl_argument "$name"
	fi
} &&
	complete -F _mtctl mtctl
'''


def quote(text):
	return "'" + text.replace("'", "'\\''") + "'"


def function(name, rows):
	"""A function that answers by its first arguments: a row is (pattern, answer)."""
	cases = "".join(f"\t{pattern}) echo {quote(answer)} ;;\n" for pattern, answer in rows)
	return f"{name}()\n{{\n\tcase $* in\n{cases}\tesac\n}}\n"


def option_word(option):
	return option.name + ("=" if option.value and not option.optional and option.name.startswith("--") else "")


def option_kind(option):
	"""A value of which nothing is known: the word "any", so that no other thing is offered in its place."""
	wants = option.wants()
	return f"words {' '.join(option.words)}" if wants == "words" else wants or "any"


def arguments(command):
	kinds = {"PID": "processes", "NAME=VALUE": "setting", "FILE": "files"}
	return " ".join(kind for what, kind in kinds.items() if command.takes(what))


def script(mtctl):
	live = [setting for setting in mtctl.settings if setting["when"] == "live"]
	parts = ["# bash completion for mtctl; made by scripts/generate/completion from mtctl's own help.\n",
	         "_mtctl_commands()\n{\n\techo " + quote(" ".join(command.name for command in mtctl.commands)) + "\n}\n",
	         function("_mtctl_options", [(command.name, " ".join(map(option_word, command.options)))
	                                     for command in mtctl.commands]),
	         function("_mtctl_kind", [(quote(f"{command.name} {option.name}"), option_kind(option))
	                                  for command in mtctl.commands for option in command.options if option.value]),
	         function("_mtctl_arguments", [(command.name, arguments(command)) for command in mtctl.commands]),
	         "_mtctl_settings()\n{\n\techo " + quote(" ".join(setting["name"] + "=" for setting in live)) + "\n}\n",
	         function("_mtctl_setting_values", [(setting["name"], " ".join(mtctl.setting_values(setting)))
	                                            for setting in live if mtctl.setting_values(setting)])]
	return "\n".join(parts) + BODY
