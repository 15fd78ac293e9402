#!/usr/bin/python3
"""gcc's compiler proper, -O2, on one large file: a short program with much memory, which ends at once.

The file is written by the driver: many declarations, as headers bring them, tables, and functions of loops and switches,
as machine-made parsers and interpreters have them. cc1 runs without gcc around it, so that it alone is measured.
"""
import subprocess
import tempfile
import time

import realprog

HEAD = """typedef unsigned long word;
struct state { word at, end, sum; const unsigned char *text; word stack[64]; };
extern word fetch(struct state *, word);
"""


def case_of(function, number):
	"""Cases differ in shape, so that the compiler cannot fold them."""
	kind, small, odd = (function * 31 + number * 17) % 5, (function + number * 3) % 61, function * 2654435761 % 99991 | 1
	if kind == 0:
		return f"s->sum += fetch(s, {small}) * {odd}u; s->stack[{small}] ^= s->sum >> {number % 23};"
	if kind == 1:
		return f"for (word k = 0; k < op % {small + 3}u; k++) s->stack[k & 63] += s->stack[(k + {small}) & 63] ^ {odd}u;"
	if kind == 2:
		return f"if (s->stack[{small}] > {odd}u && s->at < s->end) s->at++; else s->sum -= s->stack[{(small + 1) % 64}];"
	if kind == 3:
		return f"{{ word t = s->sum; while (t > {odd}u) {{ t /= {small + 2}u; s->sum ^= t << {number % 7}; }} }}"
	return f"s->sum = s->sum * {odd}u + s->text[s->at % (s->end + 1)]; s->stack[s->sum & 63] = s->at;"


def function(number):
	cases = "\n".join(f"\t\tcase {n}: {case_of(number, n)} break;" for n in range(8 + number % 5))
	return f"""word step_{number}(struct state *s)
{{
	word op = fetch(s, {number});
	while (s->at < s->end) {{
		switch (s->text[s->at++] % {17 + number % 13}) {{
{cases}
		default: return s->sum + op;
		}}
	}}
	return s->sum;
}}
"""


def declaration(number):
	return (f"struct thing_{number} {{ int a_{number % 97}; long b; struct thing_{number} *next; "
		f"unsigned flag : {1 + number % 31}; }};\n"
		f"extern struct thing_{number} *make_{number}(struct thing_{number} *from, const char *name, word w{number % 7});\n")


def table(number):
	rows = ", ".join(f"{{{number * 7919 + n}, \"entry {number} {n}\", {n * 2654435761 % 65521}}}" for n in range(100))
	return f"const struct {{ word id; const char *name; word rank; }} table_{number}[] = {{{rows}}};\n"


def write_source(file, functions):
	"""Many declarations and some tables for each function."""
	file.write(HEAD)
	for number in range(functions * 500):
		file.write(declaration(number))
	for number in range(functions * 5):
		file.write(table(number))
	for number in range(functions):
		file.write(function(number))
	calls = "\n".join(f"\tsum += step_{number}(s);" for number in range(functions))
	file.write(f"word all(struct state *s)\n{{\n\tword sum = 0;\n{calls}\n\treturn sum;\n}}\n")
	file.flush()


def main():
	options = realprog.parse_options(__doc__)
	realprog.require("gcc")
	cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
	with tempfile.NamedTemporaryFile("w", suffix=".i", prefix="mtshim-bench-") as source:
		write_source(source, max(3, int(56 * options.scale)))
		begun = time.monotonic()
		program = realprog.Program([cc1, "-quiet", "-fpreprocessed", "-O2", source.name, "-o", "/dev/null"])
		used = program.finish()
		realprog.print_figures(work_s=time.monotonic() - begun, **used)


if __name__ == "__main__":
	main()
