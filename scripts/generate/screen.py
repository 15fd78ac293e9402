"""A screen of a terminal as an SVG: what `tmux capture-pane -e -N -p` prints, with its colours.

  tmux capture-pane -e -N -p | python3 scripts/generate/screen.py COLUMNSxROWS TITLE >screen.svg

Every run of text has the width of its cells, so that the grid holds in any font. Block and line characters are drawn as shapes:
fonts leave gaps between them.
"""
import re
import sys
from xml.sax.saxutils import escape

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, EDGE = 8.4, 17, 14, 8
INK, PAPER = "#d8dee9", "#16191f"
COLOURS = ("#3b4252", "#e06c75", "#98c379", "#e5c07b", "#3d7fd1", "#c678dd", "#56b6c2", "#dcdfe4")
# Code point: where the strokes end, from the middle of the cell: left, right, up, down.
LINES = {"─": "lr", "│": "ud", "└": "ur", "├": "udr", "┤": "udl", "┬": "lrd", "┴": "lru", "┈": "dotted"}
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


class Style:
	"""What SGR sequences have set."""

	def __init__(self):
		self.ink = self.paper = None
		self.bold = self.dim = self.underlined = self.reversed = False

	def apply(self, codes):
		for code in codes:
			if code == 0:
				self.__init__()
			elif code in (1, 2, 4, 7):
				setattr(self, {1: "bold", 2: "dim", 4: "underlined", 7: "reversed"}[code], True)
			elif code == 22:
				self.bold = self.dim = False
			elif 30 <= code <= 37 or code == 39:
				self.ink = None if code == 39 else COLOURS[code - 30]
			elif 40 <= code <= 47 or code == 49:
				self.paper = None if code == 49 else COLOURS[code - 40]

	def look(self):
		"""(ink, paper, bold, dim, underlined); paper None: that of the terminal."""
		ink, paper = self.ink or INK, self.paper
		if self.reversed:
			ink, paper = paper or PAPER, ink
		return ink, paper, self.bold, self.dim, self.underlined


def runs_of(line, style):
	"""(column, text, look) of each run of one look. The style goes on in the next line."""
	column, at = 0, 0
	for found in [*ESCAPE.finditer(line), None]:
		text = line[at:found.start() if found else len(line)]
		if text:
			yield column, text, style.look()
			column += len(text)
		if found:
			style.apply([int(code or 0) for code in found[1].split(";")])
			at = found.end()


def number(value):
	return f"{value:.2f}".rstrip("0").rstrip(".")


def rect(x, y, width, height, colour, opacity=1):
	faint = f' opacity="{opacity}"' if opacity != 1 else ""
	return (f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
		f'fill="{colour}"{faint}/>')


def draw_block(x, y, eighths, cells, colour, opacity):
	height = CELL_HEIGHT * eighths / 8
	return rect(x, y + CELL_HEIGHT - height, CELL_WIDTH * cells, height, colour, opacity)


def draw_line(x, y, glyph, cells, colour, opacity):
	"""A run of one line character. Horizontal ones are a single stroke."""
	middle_y, parts = y + CELL_HEIGHT / 2, []
	sides = LINES[glyph]
	if sides == "dotted":
		return (f'<path d="M{number(x)} {number(middle_y)}h{number(CELL_WIDTH * cells)}" stroke="{colour}" stroke-dasharray="2 3" '
			f'opacity="{opacity}"/>')
	for cell in range(cells):
		left = x + CELL_WIDTH * cell
		middle_x = left + CELL_WIDTH / 2
		begin, end = left if "l" in sides else middle_x, left + CELL_WIDTH if "r" in sides else middle_x
		top, bottom = y if "u" in sides else middle_y, y + CELL_HEIGHT if "d" in sides else middle_y
		if begin < end and not (cell and sides == "lr"):
			length = (end - begin) * (cells if sides == "lr" else 1)
			parts.append(f"M{number(begin)} {number(middle_y)}h{number(length)}")
		if top < bottom:
			parts.append(f"M{number(middle_x)} {number(top)}v{number(bottom - top)}")
	return f'<path d="{"".join(parts)}" stroke="{colour}" opacity="{opacity}"/>'


def draw_text(x, y, text, look):
	ink, _, bold, dim, underlined = look
	words = "".join((' font-weight="bold"' if bold else "", ' opacity="0.55"' if dim else "",
		' text-decoration="underline"' if underlined else ""))
	return (f'<text x="{number(x)}" y="{number(y + CELL_HEIGHT * 0.76)}" textLength="{number(CELL_WIDTH * len(text))}" '
		f'lengthAdjust="spacingAndGlyphs" fill="{ink}"{words}>{escape(text)}</text>')


def pieces_of(text):
	"""(offset, piece): blanks at the ends of text go; a piece is text, or a run of one block or line character."""
	for found in re.finditer(r"([▁-█])\1*|([─│└├┤┬┴┈])\2*|[^▁-█─│└├┤┬┴┈]+", text):
		piece = found[0]
		if piece.strip():
			yield found.start() + len(piece) - len(piece.lstrip()), piece.strip()


def draw_run(column, row, text, look):
	ink, paper, _, dim, _ = look
	opacity = 0.55 if dim else 1
	x, y = EDGE + CELL_WIDTH * column, EDGE + CELL_HEIGHT * row
	if paper:
		yield rect(x, y, CELL_WIDTH * len(text), CELL_HEIGHT, paper)
	for offset, piece in pieces_of(text):
		left = x + CELL_WIDTH * offset
		if "▁" <= piece[0] <= "█":
			yield draw_block(left, y, ord(piece[0]) - ord("▁") + 1, len(piece), ink, opacity)
		elif piece[0] in LINES:
			yield draw_line(left, y, piece[0], len(piece), ink, opacity)
		else:
			yield draw_text(left, y, piece, look)


def draw(text, columns, rows, title):
	"""The whole picture, of the first `rows` lines of the text."""
	width, height = number(columns * CELL_WIDTH + 2 * EDGE), number(rows * CELL_HEIGHT + 2 * EDGE)
	style = Style()
	lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
		f"<title>{escape(title)}</title>",
		f'<rect width="{width}" height="{height}" rx="6" fill="{PAPER}"/>',
		f'<g font-family="{FONTS}" font-size="{FONT_SIZE}" fill="none" xml:space="preserve" shape-rendering="crispEdges">']
	for row, line in enumerate(text.split("\n")[:rows]):
		lines.append("".join(part for run in runs_of(line, style) for part in draw_run(run[0], row, run[1], run[2])))
	return "\n".join([line for line in lines if line] + ["</g>", "</svg>"]) + "\n"


def main(size, title):
	columns, rows = map(int, size.split("x"))
	sys.stdout.write(draw(sys.stdin.read(), columns, rows, title))


if __name__ == "__main__":
	main(*sys.argv[1:])
