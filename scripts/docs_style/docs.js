// SPDX-License-Identifier: Apache-2.0
/* docs.js: the search of `make docs`: SECTIONS (search.js) has [place, page, heading, text] of each. */
const field = document.getElementById("search");
const found = document.getElementById("found");
const SHOWN = 12;

/* How well a section fits: every word must occur; a word in a heading counts most. */
function score([, page, heading, text], words) {
	let sum = 0;
	for (const word of words) {
		const inHeading = heading.toLowerCase().includes(word);
		const inPage = page.toLowerCase().includes(word);
		const times = text.toLowerCase().split(word).length - 1;
		if (!inHeading && !inPage && !times) return 0;
		sum += (inHeading ? 20 : 0) + (inPage ? 5 : 0) + Math.min(times, 5);
	}
	return sum;
}

function excerpt(text, word) {
	const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
	return (at ? "…" : "") + text.slice(at, at + 130) + (at + 130 < text.length ? "…" : "");
}

function row([place, page, heading, text], words) {
	const item = document.createElement("li");
	const link = item.appendChild(document.createElement("a"));
	link.href = place;
	link.appendChild(document.createElement("b")).textContent = heading;
	if (heading !== page) link.append(` · ${page}`);
	link.appendChild(document.createElement("small")).textContent = excerpt(text, words[0]);
	return item;
}

function search() {
	const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
	const hits = words.length === 0 ? [] : SECTIONS.map((one) => [score(one, words), one])
		.filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]).slice(0, SHOWN);
	found.replaceChildren(...hits.map(([, one]) => row(one, words)));
	if (words.length && !hits.length) found.appendChild(document.createElement("li")).textContent = "Nothing was found.";
	found.hidden = words.length === 0;
}

function step(event) {
	const links = [...found.querySelectorAll("a")];
	const at = links.indexOf(document.activeElement);
	const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
	if (next === undefined || !links.length) return;
	event.preventDefault();
	if (next < 0) field.focus();
	else links[Math.min(next, links.length - 1)].focus();
}

field.addEventListener("input", search);
field.form.addEventListener("keydown", step);
field.form.addEventListener("submit", (event) => {
	event.preventDefault();
	found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
	if (event.key === "/" && document.activeElement !== field) {
		event.preventDefault();
		field.focus();
	} else if (event.key === "Escape") {
		found.hidden = true;
	}
});
document.addEventListener("click", (event) => { if (!field.form.contains(event.target)) found.hidden = true; });
