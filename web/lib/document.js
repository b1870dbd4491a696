// SPDX-License-Identifier: Apache-2.0
/*
 * document.js: a payload or a result: JSON on several lines that can be folded. A large one is
 * cut, with a button for the whole and a download; numbers that a browser cannot represent are
 * shown as they were written.
 */
import { fill, h, visible } from "./dom.js";
import { icon } from "./icon.js";
import { count } from "./words.js";

const SHOWN = 20000;  /* characters at first */
const OPEN = 2000;    /* up to this depth it is unfolded */
const PIECE = 4000;

/* JSON.parse that keeps integers of more than 53 bits exactly, if the browser can. */
export function parseExactly(text) {
	const keep = (_, value, context) =>
		Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") && typeof JSON.rawJSON === "function"
			? JSON.rawJSON(context.source) : value;
	return JSON.parse(text, keep);
}

export function size(n) {
	return n < 1000 ? `${count(n)} characters` : n < 1e6 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`;
}

function download(name, text) {
	const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
	h("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/* In pieces, of which only the visible ones are laid out: 1 MB appears at once. */
function pieces(text) {
	const made = [];
	for (let from = 0; from < text.length;) {
		const line = text.lastIndexOf("\n", from + PIECE);
		const to = from + PIECE >= text.length ? text.length : line > from ? line + 1 : from + PIECE;
		made.push(h("bdi", { class: "piece" }, visible(text.slice(from, to).replace(/\n$/, ""))));
		from = to;
	}
	/* A single one is laid out at once: its size need not be estimated. */
	if (made.length > 1) for (const one of made) one.classList.add("unseen");
	return made;
}

function body(text, file) {
	const pre = h("pre", { tabindex: 0, role: "region", "aria-label": `${file}, its text` }, pieces(text.slice(0, SHOWN)));
	const foot = h("div", { class: "foot" });
	const whole = () => {
		fill(pre, pieces(text));
		fill(foot, save());
	};
	const save = () => h("button", { type: "button", class: "small", onclick: () => download(file, text) }, icon("download"), "Download");
	if (text.length > SHOWN)
		fill(foot, h("span", `The first ${size(SHOWN)} of ${size(text.length)}. `), h("button", { type: "button", class: "small", onclick: whole }, "Show all"), save());
	else if (text.length > OPEN) fill(foot, save());
	return [pre, foot];
}

/* `value` is any JSON; `file` is the name of a download. */
export function documentBox(name, value, file) {
	const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
	const box = h("details", { class: "document", open: text.length <= OPEN }, h("summary", h("strong", name), h("span", { class: "muted" }, size(text.length))));
	const show = () => {
		if (box.open && box.children.length === 1) box.append(...body(text, file));
	};
	box.addEventListener("toggle", show);
	show();
	return box;
}
