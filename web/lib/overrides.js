// SPDX-License-Identifier: Apache-2.0
/*
 * overrides.js: operator overrides of a watch: scan now, pause and resume, raise the
 * thresholds, override the guards once. Each asks first and shows the result.
 */
import { part, post } from "./api.js";
import { askWith } from "./controls.js";
import { user } from "./dom.js";
import { errand } from "./errand.js";
import { poke } from "./live.js";
import { toast } from "./toast.js";
import { count, plural } from "./words.js";

const SPANS = [
	["", "until it is cleared"],
	["15m", "15 minutes"],
	["1h", "an hour"],
	["4h", "4 hours"],
	["24h", "a day"],
];
const REASON = { name: "reason", label: "Reason (visible to others)", maxlength: 500 };

async function say(w, word, body, done) {
	await errand(async () => {
		const answer = await post(`/watches/${part(w.watch)}/${word}`, body, {
			query: { database: w.builtin ? w.database : null },
		});
		toast(done(answer));
	});
	poke();
}

function given(body) {
	return Object.fromEntries(
		Object.entries(body).filter(([, value]) => value !== "" && value !== undefined),
	);
}

function scanned(w, answer, fix) {
	const said =
		answer.found === 0
			? "nothing is stuck"
			: fix
				? `${count(answer.recovered)} of ${plural(answer.found, "stuck job")} recovered`
				: `${plural(answer.found, "stuck job")} found, none changed`;
	return [user(w.watch), `: ${said}`];
}

export async function scanNow(w) {
	const asked = await askWith({
		title: ["Scan ", user(w.watch), " now"],
		button: "Scan",
		fields: [
			{
				name: "how",
				label: "Stuck jobs are",
				value: "look",
				options: [
					["look", "only counted"],
					["fix", "recovered by the rules of the watch"],
				],
			},
			REASON,
		],
	});
	if (!asked) return;
	const fix = asked.how === "fix";
	await say(w, "scan", given({ fix, reason: asked.reason }), (answer) => scanned(w, answer, fix));
}

export async function pauseWatch(w) {
	const asked = await askWith({
		title: ["Pause ", user(w.watch)],
		about: "The daemons keep scanning but recover nothing until the watch is resumed.",
		button: "Pause",
		fields: [{ name: "for", label: "For", value: "1h", options: SPANS }, REASON],
	});
	if (asked) await say(w, "pause", given(asked), () => [user(w.watch), " is paused"]);
}

export async function resumeWatch(w) {
	await say(w, "resume", {}, () => [user(w.watch), " is recovered again"]);
}

/* `raised`: it is already, and may be cleared. */
export async function raiseWatch(w, raised) {
	const asked = await askWith({
		title: ["Raise the thresholds of ", user(w.watch)],
		about: "Jobs count as stuck later, for times of high load.",
		button: "Raise",
		fields: [
			{
				name: "by",
				label: "Factor for the thresholds",
				value: raised ? "off" : "2",
				options: [
					["1.5", "1.5"],
					["2", "2"],
					["3", "3"],
					["5", "5"],
					["10", "10"],
					...(raised ? [["off", "as configured again"]] : []),
				],
			},
			{ name: "for", label: "For", value: "1h", options: SPANS },
			REASON,
		],
	});
	if (!asked) return;
	const body = asked.by === "off" ? { off: true } : given({ ...asked, by: Number(asked.by) });
	await say(w, "raise", body, () =>
		asked.by === "off"
			? [user(w.watch), " has its own thresholds again"]
			: [user(w.watch), ` has thresholds ${asked.by} times as long`],
	);
}

export async function overrule(w) {
	const asked = await askWith({
		title: ["Override the guard of ", user(w.watch)],
		danger: true,
		button: "Override once",
		about: `The next scan ignores doubt, brake and second look. Workers that are only disconnected
			lose their jobs to others. The ledger records who did this.`,
		fields: [REASON],
	});
	if (asked)
		await say(w, "override-guard", given(asked), () => [
			user(w.watch),
			": the next scan ignores the guards",
		]);
}
