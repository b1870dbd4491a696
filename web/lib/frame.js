// SPDX-License-Identifier: Apache-2.0
/*
 * frame.js: what is above every view: which installation this is, whether its databases and its
 * daemon are available, whether the page is live, and banners for what is unavailable. It requests
 * /status by itself and recovers by itself.
 */
import {
	daemonStatus,
	forgetToken,
	onReach,
	onStatus,
	Problem,
	reached,
	readStatus,
	token,
} from "./api.js";
import { announce, fill, h, renew, user } from "./dom.js";
import { icon } from "./icon.js";
import { liveState, onLive, pause, poke, reconnect, resume, subscribe } from "./live.js";
import { ago, agoText, chip, plural, stampText, tick } from "./words.js";

const ASK_S = 5; /* how often the daemon's state is requested */
const AWAY_ASK_S = 2; /* the same while something is unavailable */
const BEAT_MS = 1000; /* many events are one beat: each draws frames */
const place = (id) => document.getElementById(id);

/* ---- which installation ---- */

/* A name or a number of a colour: nothing else may get into the style. */
function colour(given) {
	const text = String(given ?? "");
	return /^(#[0-9a-f]{3,8}|[a-z]{3,24})$/i.test(text) && CSS.supports("color", text)
		? text
		: null;
}

function showEnvironment({ environment }) {
	const badge = place("environment");
	const name = environment?.name;
	const shade = colour(environment?.color);
	badge.hidden = !name;
	fill(badge, user(name ?? ""));
	badge.title = name ? `Environment: ${name}` : "";
	place("header").classList.toggle("has-environment", Boolean(name && shade));
	if (shade) document.documentElement.style.setProperty("--environment", shade);
	else document.documentElement.style.removeProperty("--environment");
}

/* ---- databases ---- */

function databaseState(d) {
	if (reached().away) return ["paused", "unknown"];
	if (!d.asked) return ["pending", "not connected yet"];
	return d.up ? ["up", "up"] : ["away", "away"];
}

function showDatabases({ databases }) {
	renew(
		place("databases"),
		databases.map((d) => {
			const [look, word] = databaseState(d);
			return chip(d.name, {
				label: `${d.name} ${word}`,
				look,
				title: `Database ${d.name} (${d.engine}): ${d.error ?? word}`,
			});
		}),
	);
}

/* ---- the daemon's heartbeat ---- */

let pulse = null;
let heardLine = null;

function makeHeartbeat() {
	pulse = h("span", { class: "pulse still", "aria-hidden": "true" });
	heardLine = h("span", "waiting for the daemon");
	fill(place("heartbeat"), pulse, heardLine);
}

let beatAt = 0;

function beat() {
	if (Date.now() - beatAt < BEAT_MS) return;
	beatAt = Date.now();
	pulse.classList.remove("beat");
	void pulse.offsetWidth; /* otherwise the animation would not start again */
	pulse.classList.add("beat");
}

function showHeartbeat() {
	const { away, heard } = reached();
	const live = liveState();
	const last = Math.max(heard ?? 0, live.heard ?? 0);
	pulse.classList.toggle("away", away);
	pulse.classList.toggle("still", !away && live.paused);
	if (last) heardLine.textContent = `last contact ${agoText(new Date(last))}`;
	const status = daemonStatus();
	if (status)
		place("heartbeat").title =
			`Daemon ${status.daemon}, version ${status.version}, up since ${stampText(status.started)}`;
}

/* ---- tools ---- */

const THEMES = [
	["system", "screen"],
	["light", "sun"],
	["dark", "moon"],
];

function theme() {
	return document.documentElement.dataset.theme ?? "system";
}

export function nextTheme() {
	const at = THEMES.findIndex(([name]) => name === theme());
	const [name] = THEMES[(at + 1) % THEMES.length];
	if (name === "system") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = name;
	localStorage.setItem("defib.theme", name);
	announce(`Colours: ${name}`);
	showTools();
}

export function togglePause() {
	if (liveState().paused) resume();
	else pause();
	announce(liveState().paused ? "Paused: the page does not update" : "Live");
}

let showHelp = () => {};

function liveButton() {
	const { paused, connected, waiting } = liveState();
	const said = paused
		? waiting
			? `Paused, ${plural(waiting, "event")} waiting`
			: "Paused"
		: connected
			? "Live"
			: "Connecting";
	return h(
		"button",
		{
			type: "button",
			id: "live",
			"aria-pressed": String(paused),
			title: `${paused ? "Resume" : "Pause"} (p)`,
			onclick: togglePause,
		},
		icon(paused ? "play" : "pause"),
		said,
	);
}

function themeButton() {
	const [name, picture] = THEMES.find(([each]) => each === theme());
	return h(
		"button",
		{
			type: "button",
			class: "quiet icon-only",
			id: "theme",
			"aria-label": `Colours: ${name}. Change`,
			title: `Colours: ${name} (t)`,
			onclick: nextTheme,
		},
		icon(picture),
	);
}

function signOut() {
	forgetToken();
	location.reload();
}

function showTools() {
	renew(
		place("tools"),
		liveButton(),
		themeButton(),
		h(
			"button",
			{
				type: "button",
				class: "quiet icon-only",
				id: "help",
				"aria-label": "Keyboard help",
				title: "Keyboard help (?)",
				onclick: () => showHelp(),
			},
			icon("question"),
		),
		token()
			? h(
					"button",
					{
						type: "button",
						class: "quiet",
						id: "sign-out",
						title: `Signed in as ${daemonStatus()?.actor ?? "?"}, ${daemonStatus()?.role ?? "?"}`,
						onclick: signOut,
					},
					"Sign out",
				)
			: null,
	);
}

/* ---- what is unavailable ---- */

const answeredAt = {}; /* by database: when it was last seen up */

function daemonBanner() {
	const { away, since, heard } = reached();
	if (!away) return null;
	return h(
		"div",
		{ class: "banner bad", id: "daemon-away" },
		icon("alert"),
		h(
			"p",
			{ class: "banner-text" },
			h("strong", "The daemon is unreachable"),
			` since ${stampText(since)} (`,
			ago(since),
			"). ",
			heard ? `The data is from ${stampText(heard)}. ` : "",
			"The page tries again by itself.",
		),
	);
}

function databaseBanner(d) {
	const seen = answeredAt[d.name] ?? d.since;
	return h(
		"div",
		{ class: "banner bad database-away" },
		icon("database"),
		h(
			"p",
			{ class: "banner-text" },
			h("strong", "Database ", user(d.name), " is unreachable"),
			d.since ? [` since ${stampText(d.since)} (`, ago(d.since), ")"] : null,
			d.error ? [": ", user(d.error)] : null,
			". ",
			seen ? `Its data is from ${stampText(seen)}. ` : "",
			"defib continues by itself when it is back.",
		),
	);
}

let said = ""; /* announced to screen readers; without ages, which would be read out each second */

function showBanners() {
	const { away } = reached();
	const lost = away ? [] : (daemonStatus()?.databases ?? []).filter((d) => d.asked && !d.up);
	const names = away ? "The daemon" : lost.map((d) => `Database ${d.name}`).join(", ");
	renew(place("banners"), daemonBanner(), lost.map(databaseBanner));
	place("banners").hidden = !names;
	place("main").classList.toggle("stale", Boolean(names));
	if (names !== said) announce(names ? `${names} is unreachable` : "Everything is reachable again");
	said = names;
}

/* ---- the loop ---- */

let asking = false;

async function look() {
	if (asking || document.hidden) return;
	asking = true;
	try {
		const wasAway = reached().away;
		const before = daemonStatus();
		const status = await readStatus();
		for (const d of status.databases) if (d.up) answeredAt[d.name] = Date.now();
		const healed = before?.databases.some((d) => !d.up) && status.databases.every((d) => d.up);
		if (wasAway || healed) {
			reconnect();
			poke();
		}
	} catch (error) {
		if (!(error instanceof Problem)) console.error(error);
	} finally {
		asking = false;
		showBanners();
		showHeartbeat();
	}
}

function goRound() {
	let nextAsk = 0;
	setInterval(() => {
		tick();
		showHeartbeat();
		const now = Date.now();
		if (now < nextAsk) return;
		nextAsk = now + (place("banners").childElementCount ? AWAY_ASK_S : ASK_S) * 1000;
		look();
	}, 1000);
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) return;
		look();
		poke();
	});
}

/* Starts the frame; resolves after the first request to the daemon. */
export async function startFrame({ help }) {
	showHelp = help;
	makeHeartbeat();
	showTools();
	onStatus((status) => {
		showEnvironment(status);
		showDatabases(status);
		beat();
	});
	onReach(() => {
		showBanners();
		if (daemonStatus()) showDatabases(daemonStatus());
	});
	onLive(showTools);
	subscribe((event) => {
		beat();
		if (event.type === "database") look();
	});
	goRound();
	await look();
	showTools();
}
