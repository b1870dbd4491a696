// SPDX-License-Identifier: Apache-2.0
/*
 * keys.js: the keyboard: "/" for the search, "?" for this list, g and a letter for a view. Keys are
 * ignored while the user types.
 */
import { h } from "./dom.js";

/* Between g and its letter, as they were pressed: a busy page may receive them later. */
const WITHIN_MS = 1200;

const typing = (target) =>
	target.closest?.(
		"input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]",
	);

/* j and k anywhere: into the first table of the view; there the table's own keys go on. */
function intoTable(key) {
	const rows = [...document.querySelectorAll("main tbody tr[tabindex]")].filter((row) => row.offsetParent !== null);
	const row = key === "j" ? rows[0] : rows.at(-1);
	row?.focus();
	row?.scrollIntoView({ block: "nearest" });
	return Boolean(row);
}

/* `single`: {key: act}; `views`: [{letter, path}]. */
export function listenToKeys(single, views, go) {
	let gAt = -Infinity;
	document.addEventListener("keydown", (event) => {
		if (
			event.defaultPrevented ||
			event.ctrlKey ||
			event.metaKey ||
			event.altKey ||
			event.isComposing
		)
			return;
		if (typing(event.target)) {
			if (event.key === "Escape") event.target.blur();
			return;
		}
		if (document.querySelector("dialog[open]")) return;
		const view =
			event.timeStamp - gAt < WITHIN_MS && views.find((v) => v.letter === event.key);
		gAt = event.key === "g" ? event.timeStamp : -Infinity;
		if (view) go(view.path);
		else if ((event.key === "j" || event.key === "k") && !event.shiftKey && intoTable(event.key)) gAt = -Infinity;
		else if (Object.hasOwn(single, event.key)) single[event.key]();
		else return;
		event.preventDefault();
	});
}

function line(keys, words) {
	return [
		h(
			"dt",
			keys.map((key) => h("kbd", key)),
		),
		h("dd", words),
	];
}

/* The dialog that lists all of them. */
export function keyHelp(views) {
	const close = () => dialog.close();
	const dialog = h(
		"dialog",
		{ "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
		h(
			"div",
			{ class: "dialog-body" },
			h("h2", { id: "keys-title" }, "Keyboard"),
			h(
				"dl",
				{ class: "keys" },
				line(["/"], "find a job"),
				line(["?"], "this list"),
				line(["p"], "pause, resume"),
				line(["t"], "colours: system, light, dark"),
				views.filter((v) => v.letter).map((v) => line(["g", v.letter], v.title)),
				line(["j", "k"], "into the table; next row, previous row"),
				line(["Enter"], "open the row"),
				line(["x"], "select the row; with Shift and j or k, several"),
				line(["Esc"], "close, leave a field"),
			),
			h(
				"div",
				{ class: "dialog-foot" },
				h(
					"button",
					{ type: "button", class: "primary", onclick: close, autofocus: true },
					"Close",
				),
			),
		),
	);
	document.body.append(dialog);
	dialog.showModal();
}
