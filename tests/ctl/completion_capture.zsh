# Sourced by a zsh on a terminal of test_completion.py: Tab writes what would be offered to $CAPTURE, a match a line, then
# what would be shown for it, a line behind a tab (matches of one description share one), and "done" at the end.
# $DUMP keeps what compinit has found, for the next such zsh.
autoload -Uz compinit && compinit -C -u -d $DUMP
zstyle ':completion:*' verbose yes
PROMPT='ready> '
LISTMAX=100000
unsetopt prompt_sp

compadd() {
	local -a captured_words captured_texts
	local captured_at=${@[(i)-*d]}
	# What only filters or counts is no offer.
	if (( ! ${@[(I)-(O|A|D)]} )); then
		builtin compadd -A captured_words "$@"
		(( captured_at < $# )) && captured_texts=("${(@P)@[captured_at + 1]}")
		print -rl -- $captured_words $'\t'$^captured_texts >>$CAPTURE
	fi
	builtin compadd "$@"
}

capture-completion() {
	zle complete-word
	print done >>$CAPTURE
	zle kill-whole-line
}
zle -N capture-completion
zle -C complete-word complete-word _main_complete
bindkey '^I' capture-completion
