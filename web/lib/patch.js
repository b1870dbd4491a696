// SPDX-License-Identifier: Apache-2.0
/*
 * patch.js: updates what is shown to new content by changing only what differs: the focus, selected
 * text and unfolded parts stay. Listeners are not carried over, so it is for content without
 * listeners, or whose listeners need nothing that changes.
 */

const LEFT = new Set(["open", "style"]);

function sameKind(a, b) {
	return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

/* A style is set through the object model: the policy of this page allows no attribute. */
function attributes(old, made) {
	if (old.style && old.style.cssText !== made.style.cssText) old.style.cssText = made.style.cssText;
	for (const { name } of [...old.attributes]) if (!LEFT.has(name) && !made.hasAttribute(name)) old.removeAttribute(name);
	for (const { name, value } of made.attributes) if (!LEFT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
}

function node(old, made) {
	if (!sameKind(old, made)) {
		old.replaceWith(made);
	} else if (old.nodeType === Node.TEXT_NODE) {
		if (old.data !== made.data) old.data = made.data;
	} else {
		attributes(old, made);
		patch(old, made.childNodes);
	}
}

/* The children of an element become these. */
export function patch(element, children) {
	const made = [...children];
	const old = [...element.childNodes];
	made.forEach((one, i) => {
		if (i < old.length) node(old[i], one);
		else element.append(one);
	});
	for (const gone of old.slice(made.length)) gone.remove();
}
