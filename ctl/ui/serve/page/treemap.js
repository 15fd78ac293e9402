// treemap.js -- rectangles whose areas are figures, near to squares (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000).

// items: [{bytes}], the largest first; box: {x, y, width, height}. Returns [{item, x, y, width, height}].
export function squarify(items, box) {
	const all = items.reduce((sum, item) => sum + item.bytes, 0);
	const placed = [];
	let rest = {...box};
	let scale = all > 0 ? box.width * box.height / all : 0;

	for (let at = 0; at < items.length && scale > 0;) {
		const row = takeRow(items, at, Math.min(rest.width, rest.height), scale);

		placed.push(...layRow(items.slice(at, at + row.count), row.area, rest, scale));
		rest = cut(rest, row.area);
		at += row.count;
	}
	return placed;
}

// Takes items as long as that makes the least square rectangle of the row squarer.
function takeRow(items, at, side, scale) {
	let area = 0, count = 0, worst = Infinity;

	while (at + count < items.length) {
		const largest = items[at].bytes * scale, smallest = items[at + count].bytes * scale;
		const grown = area + smallest;
		const ratio = Math.max(side * side * largest / (grown * grown), grown * grown / (side * side * smallest));

		if (ratio > worst)
			break;
		worst = ratio;
		area = grown;
		count++;
	}
	return {area, count};
}

function layRow(items, area, box, scale) {
	const wide = box.width >= box.height; // the row then is a column at the left
	const depth = area / (wide ? box.height : box.width);
	let along = wide ? box.y : box.x;

	return items.map((item) => {
		const length = item.bytes * scale / depth;
		const place = wide ? {x: box.x, y: along, width: depth, height: length} :
			{x: along, y: box.y, width: length, height: depth};

		along += length;
		return {item, ...place};
	});
}

function cut(box, area) {
	const wide = box.width >= box.height;
	const depth = area / (wide ? box.height : box.width);

	return wide ? {...box, x: box.x + depth, width: Math.max(0, box.width - depth)} :
		{...box, y: box.y + depth, height: Math.max(0, box.height - depth)};
}
