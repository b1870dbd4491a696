// SPDX-License-Identifier: Apache-2.0
/*
 * dom.js: builds elements. All text becomes text nodes: this page never parses a text as HTML,
 * so whatever a row, an owner or an error message contains is shown as it is and has no effect.
 *
 *   h("p", { class: "muted" }, "held by ", user(row.owner))
 *   h("button", { type: "button", onclick: () => go("/jobs") }, icon("list"), "Jobs")
 */

const SVG = "http://www.w3.org/2000/svg";

function set(element, name, value) {
	if (value === null || value === undefined || value === false) return;
	if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
	else if (name === "vars")
		for (const [property, given] of Object.entries(value))
			element.style.setProperty(property, given);
	else if (name === "value" || name === "checked" || name === "indeterminate")
		element[name] = value;
	else element.setAttribute(name, value === true ? "" : String(value));
}

function add(element, children) {
	for (const child of children.flat(Infinity)) {
		if (child === null || child === undefined || child === false || child === true) continue;
		element.append(child instanceof Node ? child : document.createTextNode(String(child)));
	}
	return element;
}

function isAttributes(thing) {
	return (
		thing !== null &&
		typeof thing === "object" &&
		!Array.isArray(thing) &&
		!(thing instanceof Node)
	);
}

function build(element, attributes, children) {
	if (!isAttributes(attributes)) return add(element, [attributes, ...children]);
	for (const [name, value] of Object.entries(attributes)) set(element, name, value);
	return add(element, children);
}

/*
 * An element. Attributes may be omitted; null and false are not set; on… are listeners; `vars` are
 * CSS custom properties (the policy of this page allows no style attribute). Children are nodes,
 * texts, lists of these, or nothing.
 */
export function h(tag, attributes = null, ...children) {
	return build(document.createElement(tag), attributes, children);
}

/* The same for elements inside <svg>. */
export function s(tag, attributes = null, ...children) {
	return build(document.createElementNS(SVG, tag), attributes, children);
}

/*
 * Invisible characters get a visible form: ␛ for escape, ⟨U+202E⟩ for one that changes the
 * direction of a text.
 */
export function visible(text) {
	return String(text)
		.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) =>
			String.fromCodePoint(0x2400 + c.codePointAt(0)),
		)
		.replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) =>
			c === "\u007f"
				? "␡"
				: `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
		);
}

/* Foreign text (a key, an owner, an error): its direction does not affect the page. */
export function user(text, attributes = {}) {
	return text === null || text === undefined || text === ""
		? h("span", { class: "muted" }, "–")
		: h("bdi", attributes, visible(text));
}

/* Replace the children of an element. */
export function fill(element, ...children) {
	element.replaceChildren();
	return add(element, children);
}

/*
 * The same, but only where something differs: text that is being read, selected or focused stays.
 * For children whose listeners do not depend on when they were made.
 */
export function renew(element, ...children) {
	const next = add(document.createElement("div"), children);
	if (
		element.childNodes.length === next.childNodes.length &&
		[...element.childNodes].every((node, i) => node.isEqualNode(next.childNodes[i]))
	)
		return;
	const controls = () => [...element.querySelectorAll("a, button")];
	const at = controls().indexOf(document.activeElement);
	element.replaceChildren(...next.childNodes);
	if (at >= 0) controls()[at]?.focus({ preventScroll: true });
}

/* A line for screen readers, without anything moving on the screen. */
export function announce(text) {
	const place = document.getElementById("announcements");
	if (place) place.textContent = text;
}
