// SPDX-License-Identifier: Apache-2.0
/*
 * token.js: the small form that asks for a token if the daemon needs one. The token is kept for
 * this tab (api.js) and never put into an address.
 */
import { h, user } from "./dom.js";

/* Shows the form until a token is given. */
export function askForToken(why) {
	return new Promise((resolve) => {
		const input = h("input", {
			id: "token",
			type: "password",
			required: true,
			autocomplete: "current-password",
			autofocus: true,
		});
		const give = (event) => {
			event.preventDefault();
			const given = input.value.trim();
			if (!given) return;
			dialog.close();
			dialog.remove();
			resolve(given);
		};
		const dialog = h(
			"dialog",
			{ "aria-labelledby": "token-title", oncancel: (event) => event.preventDefault() },
			h(
				"form",
				{ onsubmit: give },
				h("h2", { id: "token-title" }, "Enter a token"),
				why ? h("p", { class: "bad-text", role: "alert" }, user(why)) : null,
				h(
					"p",
					{ class: "muted" },
					"This daemon requires one of the tokens of its configuration (http: tokens:). The token is kept for this tab only.",
				),
				h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input),
				h(
					"div",
					{ class: "dialog-foot" },
					h("button", { type: "submit", class: "primary" }, "Open"),
				),
			),
		);
		document.body.append(dialog);
		dialog.showModal();
	});
}
