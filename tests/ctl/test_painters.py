"""Terminals have one painter, the grid of cells, and pictures have one, the canvas: a chart looks the same in every view."""
import re

import pytest

from places import ROOT

SOURCES = [path for path in (ROOT / "ctl").rglob("*.[ch]")]
DRAWN_BY = {
	"blocks and lines in a text that no cell holds": (r'(?<!L)"[^"\n]*\\u25[0-9a-f]{2}', set()),
	"colours of a terminal": (r'\\033\[(0"|\d+m)', {"ctl/output/cells.c", "ctl/output/table.c"}),
	"shapes of a picture": (r"\bcairo_\w+\(|<path |<svg ", {"ctl/ui/plot/canvas.c"}),
}


@pytest.mark.parametrize("what", DRAWN_BY)
def test_two_painters_draw_and_nothing_else_does(what):
	sign, painters = DRAWN_BY[what]

	drawing = {str(path.relative_to(ROOT)) for path in SOURCES if re.search(sign, path.read_text())}

	assert len(SOURCES) > 100 and drawing == painters
