// SPDX-License-Identifier: Apache-2.0
/*
 * toast.js: a short line at the foot of the page about what was just done, with one follow-up
 * action. It stays while the user points at it or has the focus in it.
 */
import { h } from "./dom.js";
import { icon } from "./icon.js";

const STAYS_MS = 20000;

function place() {
	let found = document.getElementById("toasts");
	if (!found) {
		found = h("div", { id: "toasts", class: "toasts", role: "region", "aria-label": "What was just done" },
			h("div", { class: "toast-list", role: "status" }));
		document.body.append(found);
	}
	return found.firstElementChild;
}

/* Disappears by itself, but never under the pointer. */
function leave(element) {
	const busy = element.matches(":hover") || element.contains(document.activeElement);
	if (busy) setTimeout(() => leave(element), 2000);
	else element.remove();
}

/* `act`: {title, run} for a button. `words` are texts or nodes. */
export function toast(words, { shade = "good", act = null } = {}) {
	const pictures = { good: "check", bad: "alert", warn: "alert", idle: "dot" };
	const close = () => element.remove();
	const element = h("div", { class: `toast ${shade}` }, icon(pictures[shade] ?? "dot"),
		h("p", { class: "toast-text" }, words),
		act ? h("button", { type: "button", onclick: () => { close(); act.run(); } }, icon("undo"), act.title) : null,
		h("button", { type: "button", class: "quiet icon-only", "aria-label": "Close this message", onclick: close }, icon("cross")));
	place().append(element);
	setTimeout(() => leave(element), STAYS_MS);
	return element;
}
