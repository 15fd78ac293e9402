// download.js -- saves what a chart shows: its figures as CSV, and its picture as PNG.

// Hands a text or a Blob to the browser as a file.
export function save(content, type, name) {
	const link = document.createElement("a");

	link.href = URL.createObjectURL(new Blob([content], {type}));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// RFC 4180: names of processes may hold anything.
function field(text) {
	return /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
}

// Times as ISO 8601 in UTC, figures in bytes.
export function table(series, rows) {
	const lines = [["time", ...series.map((one) => field(one.label))],
		...rows.map(([time, ...figures]) => [new Date(time).toISOString(), ...figures.map(Math.round)])];

	return lines.map((line) => line.join(",") + "\r\n").join("");
}

// ---- the picture: dygraphs' canvases, and what lies beside and over them, drawn once more ----

const MARGIN = 12;
const FONT = "12px system-ui, sans-serif";

function paint(context, text, x, y, colour, font = FONT) {
	context.font = font;
	context.fillStyle = colour;
	context.fillText(text, x, y);
	return context.measureText(text).width;
}

// Names and their colours, in as many lines as they need. Returns the height.
function paintNames(context, names, ink, width) {
	let x = 0, y = 10;

	for (const node of names.children) {
		const text = [...node.children].slice(1).map((one) => one.textContent).join("  ");
		const length = context.measureText(text).width + 40;

		if (x > 0 && x + length > width) {
			x = 0;
			y += 18;
		}
		context.fillStyle = node.querySelector("rect").getAttribute("fill");
		context.fillRect(x, y - 9, 14, 10);
		paint(context, text, x + 20, y, ink);
		x += length;
	}
	return y + 10;
}

function paintAxes(context, plot, colour) {
	const from = plot.getBoundingClientRect();

	for (const label of plot.querySelectorAll(".dygraph-axis-label")) {
		const box = label.getBoundingClientRect();
		const isY = label.classList.contains("dygraph-axis-label-y");

		context.textAlign = isY ? "right" : "center";
		paint(context, label.textContent, box.x - from.x + (isY ? box.width : box.width / 2), box.y - from.y + box.height / 2 + 4, colour,
			"11px system-ui, sans-serif");
	}
	context.textAlign = "left";
}

function paintMarks(context, overlay) {
	for (const rect of overlay.querySelectorAll(".shade[visibility=visible] rect")) {
		const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name)));

		context.fillStyle = getComputedStyle(rect).fill;
		context.globalAlpha = getComputedStyle(rect).fillOpacity;
		context.fillRect(x, y, width, height);
		context.globalAlpha = 1;
	}
	for (const path of overlay.querySelectorAll(".mark path")) {
		const shape = new Path2D();

		shape.addPath(new Path2D(path.getAttribute("d")), path.transform.baseVal.consolidate().matrix);
		context.fillStyle = getComputedStyle(path).fill;
		context.strokeStyle = getComputedStyle(path).stroke;
		context.fill(shape, "evenodd");
		context.stroke(shape);
	}
}

// The chart of these parts (chart.js), in the colours of the present scheme.
export function picture({heading, total, names, plot, overlay}, name) {
	const canvas = document.createElement("canvas");
	const context = canvas.getContext("2d");
	const style = getComputedStyle(document.documentElement);
	const [sheet, ink, dim] = ["sheet", "ink", "dim"].map((one) => style.getPropertyValue("--" + one));
	const width = plot.clientWidth, scale = Math.max(2, devicePixelRatio);
	const namesHeight = (context.font = FONT, paintNames(context, names, ink, width));

	canvas.width = scale * (width + 2 * MARGIN);
	canvas.height = scale * (plot.clientHeight + namesHeight + 24 + 2 * MARGIN);
	context.scale(scale, scale);
	context.fillStyle = sheet;
	context.fillRect(0, 0, canvas.width, canvas.height);
	context.translate(MARGIN, MARGIN);
	paint(context, `${heading.textContent}  ${total.textContent}  ${new Date().toLocaleString()}`, 0, 12, ink,
		"600 14px system-ui, sans-serif");
	context.translate(0, 24);
	context.font = FONT;
	paintNames(context, names, ink, width);
	context.translate(0, namesHeight);
	for (const one of plot.querySelectorAll("canvas"))
		context.drawImage(one, one.offsetLeft, one.closest(".graph").offsetTop + one.offsetTop, one.clientWidth, one.clientHeight);
	paintAxes(context, plot, dim);
	paintMarks(context, overlay);
	canvas.toBlob((blob) => save(blob, "image/png", name));
}
