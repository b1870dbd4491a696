// SPDX-License-Identifier: Apache-2.0
/*
 * copy.js: a button that copies a text. Pages without TLS have no clipboard; there the text is
 * selected instead.
 */
import { announce, h } from "./dom.js";
import { icon } from "./icon.js";

function selectBeside(button) {
	const beside = button.previousElementSibling;
	if (beside) getSelection().selectAllChildren(beside);
}

async function copy(text, button, word) {
	try {
		await navigator.clipboard.writeText(text);
		word.textContent = "Copied";
	} catch {
		selectBeside(button);
		word.textContent = "Selected";
	}
	announce(word.textContent);
	setTimeout(() => { word.textContent = "Copy"; }, 2000);
}

/* `text` is a function: it returns the text at the time of the click. */
export function copyButton(text, label) {
	const word = h("span", "Copy");
	const button = h("button", { type: "button", class: "quiet copy", "aria-label": label, onclick: () => copy(text(), button, word) }, icon("copy"), word);
	return button;
}
