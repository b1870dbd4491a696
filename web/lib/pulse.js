// SPDX-License-Identifier: Apache-2.0
/*
 * pulse.js: how a worker beat recently: a stroke for each renewal of its lease, red where one was
 * missed, hatched where the daemon did not look. The same as text, for screen readers.
 */
import { h, s } from "./dom.js";
import { duration, plural } from "./words.js";

const WIDE = 132,
	HIGH = 24;
const KEPT = 60; /* beats that the daemon remembers */
const LATE = 2.2; /* this many missing beats are a gap … */
const LOOKS_S = 2; /* … and the daemon looks only this often */

/* [{from, to}] in seconds ago, the older first: silences, and unobserved times. */
function holes(beats, beatS, alive) {
	const late = LATE * beatS + LOOKS_S;
	const found = { gaps: [], blind: [] };
	let last = null,
		unseen = false;
	for (const age of alive ? [...beats, 0] : beats) {
		if (age === null) {
			unseen = true;
			continue;
		}
		if (last !== null && unseen) found.blind.push({ from: last, to: age });
		else if (last !== null && last - age > late) found.gaps.push({ from: last, to: age });
		last = age;
		unseen = false;
	}
	return found;
}

function inWords(seen, gaps, span) {
	const longest = Math.max(0, ...gaps.map((g) => g.from - g.to));
	if (seen.length === 0) return "No heartbeat seen yet";
	return (
		`${plural(seen.length, "beat")} in the last ${duration(span)}, ` +
		(gaps.length ? `${plural(gaps.length, "gap")}, the longest ${duration(longest)}` : "no gap")
	);
}

/* `beats` are seconds ago, the oldest first; a worker beats three times per lease. */
export function pulse(beats, leaseS, alive) {
	const beatS = leaseS / 3;
	const span = Math.max(30, KEPT * beatS);
	const x = (age) => (1 + (WIDE - 2) * (1 - Math.min(1, age / span))).toFixed(1);
	const { gaps, blind } = holes(beats, beatS, alive);
	const seen = beats.filter((age) => age !== null && age <= span);
	const said = inWords(seen, gaps, span);
	const band = (hole, name) =>
		s("rect", {
			class: name,
			x: x(hole.from),
			width: Math.max(1, x(hole.to) - x(hole.from)),
			y: 3,
			height: HIGH - 6,
		});
	return h(
		"span",
		{ class: "pulse-line", title: said },
		s(
			"svg",
			{
				viewBox: `0 0 ${WIDE} ${HIGH}`,
				width: WIDE,
				height: HIGH,
				role: "img",
				"aria-label": said,
				focusable: "false",
			},
			s("line", { class: "ground", x1: 0, x2: WIDE, y1: HIGH - 4, y2: HIGH - 4 }),
			blind.map((hole) => band(hole, "blind")),
			gaps.map((hole) => band(hole, "gap")),
			seen.map((age) =>
				s("line", { class: "stroke", x1: x(age), x2: x(age), y1: 6, y2: HIGH - 4 }),
			),
		),
		gaps.length ? h("span", { class: "bad-text gap-words" }, plural(gaps.length, "gap")) : null,
	);
}
