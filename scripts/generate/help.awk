# Writes the help of each command from its page, docs/mtctl/NAME.md, as a C table: build/gen/help.h, which ctl/command.c includes.
#
#   awk -f scripts/generate/help.awk docs/mtctl/*.md
#
# A page has it between <!-- help --> and <!-- /help -->, in a block of text. Its first lines, up to a blank one, are mtctl's own: the usage,
# and what the command does. What comes from tables ends the help here: the keys and columns of top, the verdicts of diagnose.

BEGIN { print "static const struct {\n\tconst char *name, *text;\n} helps[] = {" }

function end_page()
{
	if (name != "")
		print "\t{\"" name "\",\n" (text == "" ? "\t \"\"\n" : text) "\t},"
	name = text = blanks = ""
}

FNR == 1 {
	end_page()
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\.md$/, "", name)
	part = 0
}
/^<!-- help -->$/ { part = 1; next }
/^(<!-- \/help -->|Keys|the verdicts, and their exit codes:)$/ { part = 0 }
/^```/ || !part { next }
part == 1 { part += $0 == ""; next }
$0 == "" { blanks = blanks "\t \"\\n\"\n"; next }
{
	gsub(/\\/, "&&") # mawk and gawk differ in what a string of backslashes is
	gsub(/"/, "\\\"")
	text = text blanks "\t \"" $0 "\\n\"\n"
	blanks = ""
}
END { end_page(); print "};" }
