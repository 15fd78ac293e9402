// dom.js -- makes elements by name. Text becomes text nodes, never markup: text of processes may be hostile.
// Nodes are kept and changed, so that a page that is open for days does not grow.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
	for (const [name, value] of Object.entries(attributes ?? {}))
		node.setAttribute(name, value);
	node.append(...children);
	return node;
}

export function html(name, attributes, ...children) {
	return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
	return fill(document.createElementNS(SVG, name), attributes, children);
}

export function byId(id) {
	return document.getElementById(id);
}

// Changes nothing where the text is the same: a selection stays, and screen readers stay silent.
export function setText(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

export function setAttribute(node, name, value) {
	if (value === null)
		node.removeAttribute(name);
	else if (node.getAttribute(name) !== String(value))
		node.setAttribute(name, value);
}

// Makes the children of `parent` one for each item, in order. A child of the same key is kept and handed to `update`.
export function sync(parent, items, keyOf, make, update) {
	const old = new Map();
	let at = parent.firstChild;

	for (const child of parent.childNodes)
		old.set(child.mtKey, child);
	for (const item of items) {
		const key = keyOf(item);
		const child = old.get(key) ?? make(item);

		old.delete(key);
		child.mtKey = key;
		if (child === at)
			at = at.nextSibling;
		else
			parent.insertBefore(child, at);
		update(child, item);
	}
	for (const child of old.values())
		child.remove();
}

// A plain table: heads are texts, or {text, numeric}; rows are arrays of texts, keyed by `key`.
export function syncTable(host, heads, rows) {
	const table = host.firstChild ??
		host.appendChild(html("table", null, html("thead", null, html("tr")), html("tbody")));
	const numeric = (i) => (heads[i].numeric ? "number" : "");

	sync(table.tHead.rows[0], heads, (head) => head.text, () => html("th", {scope: "col"}),
		(cell, head) => { setText(cell, head.text); cell.className = numeric(heads.indexOf(head)); });
	sync(table.tBodies[0], rows, (row) => row.key, () => html("tr"), (line, row) => {
		setAttribute(line, "title", row.title ?? null);
		sync(line, row.cells.map((text, i) => ({text, i})), (cell) => cell.i, () => html("td"),
			(cell, {text, i}) => {
				setText(cell, text);
				cell.className = numeric(i);
				cell.dataset.label = heads[i].text;
			});
	});
}

// Name and value pairs into a <dl>.
export function syncFacts(list, facts) {
	sync(list, facts, (fact) => fact.name, () => html("div", null, html("dt"), html("dd")), (node, fact) => {
		setText(node.firstChild, fact.name);
		setText(node.lastChild, fact.value);
		setAttribute(node, "title", fact.title ?? null);
		setAttribute(node, "data-level", fact.level ?? null);
	});
}
