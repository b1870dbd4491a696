// SPDX-License-Identifier: Apache-2.0
/*
 * controls.js: what several views have above their data: fields whose values are in the
 * address, a choice of the database, problems, downloads, and a small form in a dialog.
 *
 *   const state = addressed(query, ["watch"]);     state.watch, state.set({ watch: "pages" })
 *   toolbar.append(choice("Event", "event", [["", "any"], …], state, reload));
 *   const given = await askWith({ title: "Pause", fields: […], button: "Go" });   null: it was left
 */
import { ask, databases, Problem, queryText, token } from "./api.js";
import { h, user } from "./dom.js";
import { errand, isEnd } from "./errand.js";
import { icon } from "./icon.js";
import { toast } from "./toast.js";

/* ---- values in the address ---- */

/* Names that are not in the list, and empty values, are not put into the address. */
export function addressed(query, names) {
	const state = {};
	for (const name of names) state[name] = query.get(name) ?? "";
	Object.defineProperty(state, "set", {
		value: (changes) => {
			Object.assign(state, changes);
			history.pushState(null, "", location.pathname + queryText(state));
		},
	});
	return state;
}

let ids = 0;

function labelled(label, control, hidden = false) {
	control.id ||= `control-${++ids}`;
	return h(
		"div",
		{ class: "field" },
		h("label", { for: control.id, class: hidden ? "sr-only" : null }, label),
		control,
	);
}

/* options: [[value, words], …]; a value of the address that is not among them is added. */
export function choice(label, name, options, state, changed) {
	const known = options.some(([value]) => value === state[name]);
	const all = known ? options : [...options, [state[name], state[name]]];
	const select = h(
		"select",
		{
			name,
			onchange: () => {
				state.set({ [name]: select.value });
				changed();
			},
		},
		all.map(([value, words]) => h("option", { value, selected: value === state[name] }, words)),
	);
	return labelled(label, select);
}

/* A text that takes effect when the field is left or Enter is pressed. */
export function textField(label, name, state, changed, { size = 16, placeholder = null } = {}) {
	const input = h("input", {
		type: "search",
		name,
		size,
		placeholder,
		value: state[name],
		autocomplete: "off",
		spellcheck: "false",
		onchange: () => {
			state.set({ [name]: input.value.trim() });
			changed();
		},
	});
	return labelled(label, input);
}

/* A choice of the database, if there is more than one. */
export async function databaseChoice(state, changed) {
	const names = await databases();
	return names.length > 1
		? choice(
				"Database",
				"database",
				names.map((name, i) => [i === 0 ? "" : name, name]),
				state,
				changed,
			)
		: null;
}

/* ---- problems ---- */

export function problemBox(error) {
	if (!(error instanceof Problem)) throw error;
	return h(
		"div",
		{ class: "banner bad", role: "alert" },
		icon("alert"),
		h(
			"p",
			{ class: "banner-text" },
			user(error.detail),
			error.next ? [". ", user(error.next)] : null,
		),
	);
}

/*
 * A place that shows why load() failed, and that is empty again when it succeeds: what was shown
 * before stays. {element, run}.
 */
export function telling(load, signal) {
	const element = h("div", { hidden: true });
	const run = async () => {
		try {
			await load();
			element.hidden = true;
			element.replaceChildren();
		} catch (error) {
			if (isEnd(error, signal)) return;
			const next = problemBox(error);
			element.hidden = false;
			if (element.textContent !== next.textContent) element.replaceChildren(next);
		}
	};
	return { element, run };
}

/* ---- files ---- */

function keep(blob, name) {
	const link = h("a", { href: URL.createObjectURL(blob), download: name });
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function fetchFile(path, name) {
	const answer = await ask(path);
	keep(await answer.blob(), name);
	if (answer.headers.has("Defib-Next"))
		toast("The file is truncated at the maximum number of entries. Choose a shorter period.", {
			shade: "warn",
		});
}

/* A link to a format of the API. A link cannot send a token: then the file is fetched first. */
export function fileLink(words, path, name) {
	return h(
		"a",
		{
			class: "button",
			href: `/api/v1${path}`,
			download: name,
			onclick: (event) => {
				if (!token()) return;
				event.preventDefault();
				errand(() => fetchFile(path, name));
			},
		},
		icon("download"),
		words,
	);
}

/* ---- a small form ---- */

function fieldOf({ name, label, type = "text", value = "", options = null, hint = null, ...rest }) {
	const control = options
		? h(
				"select",
				{ name },
				options.map(([given, words]) =>
					h("option", { value: given, selected: given === value }, words),
				),
			)
		: h("input", { name, type, value, autocomplete: "off", ...rest });
	const row = labelled(label, control);
	if (hint) row.append(h("span", { class: "muted" }, hint));
	return row;
}

/* Resolves with {name: text, …}, or null. */
export function askWith({ title, about = null, fields, button, danger = false }) {
	return new Promise((resolve) => {
		let given = null;
		const before = document.activeElement;
		const form = h(
			"form",
			{
				method: "dialog",
				onsubmit: () => {
					given = Object.fromEntries(new FormData(form));
				},
			},
			h("h2", { id: "ask-title" }, title),
			about ? h("p", { class: "muted" }, about) : null,
			fields.map(fieldOf),
			h(
				"div",
				{ class: "dialog-foot" },
				h("button", { type: "button", onclick: () => dialog.close() }, "Back"),
				h(
					"button",
					{ type: "submit", class: danger ? "primary danger" : "primary" },
					button,
				),
			),
		);
		const dialog = h(
			"dialog",
			{
				"aria-labelledby": "ask-title",
				onclose: () => {
					dialog.remove();
					if (before?.isConnected) before.focus({ preventScroll: true });
					resolve(given);
				},
			},
			form,
		);
		document.body.append(dialog);
		dialog.showModal();
		form.querySelector("input, select")?.focus();
	});
}
