// SPDX-License-Identifier: Apache-2.0
/*
 * app.js: the page: which view an address has, links that do not reload, and the frame.
 *
 * A view is a module of views/ that exports `title` and `show(root, {params, query, go, signal})`,
 * which fills `root` and may continue until the signal ends (another view is shown). It may export
 * `update(event)`, which gets each event of the stream (lib/live.js) while the view is shown and
 * the page is not paused.
 */
import { onTokenNeeded, Problem } from "./lib/api.js";
import { startBackground } from "./lib/background.js";
import { startBadges } from "./lib/badges.js";
import { announce, fill, h, user } from "./lib/dom.js";
import { isEnd } from "./lib/errand.js";
import { nextTheme, startFrame, togglePause } from "./lib/frame.js";
import { icon } from "./lib/icon.js";
import { keyHelp, listenToKeys } from "./lib/keys.js";
import { subscribe } from "./lib/live.js";
import { startSearch } from "./lib/search.js";
import { askForToken } from "./lib/token.js";

/* {parts} of a path become params. The server knows the same paths (src/http/page.c). */
const VIEWS = [
	{ path: "/", module: "overview", title: "Overview", letter: "o", icon: "board" },
	{ path: "/stuck", module: "stuck", title: "Stuck", letter: "s", icon: "alert" },
	{ path: "/jobs", module: "jobs", title: "Jobs", letter: "j", icon: "list" },
	{ path: "/jobs/{watch}/{key}", module: "job", title: "Job", under: "/jobs" },
	{ path: "/watches/{watch}", module: "watch", title: "Watch", under: "/" },
	{ path: "/workers", module: "workers", title: "Workers", letter: "w", icon: "worker" },
	{ path: "/ledger", module: "ledger", title: "Ledger", letter: "l", icon: "book" },
	{ path: "/alerts", module: "alerts", title: "Alerts", letter: "a", icon: "bell" },
	{ path: "/report", module: "report", title: "Report", letter: "r", icon: "chart" },
	{ path: "/health", module: "health", title: "Health", letter: "h", icon: "heart" },
];
const NAMED = VIEWS.filter((view) => view.letter);

const main = document.getElementById("main");
let shown = null; /* {view, module, cut} */

/* ---- which view ---- */

function decoded(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

/* The params of a path that fits, or null. */
function fits(pattern, pathname) {
	const wanted = pattern.split("/"),
		given = pathname.split("/");
	if (wanted.length !== given.length) return null;
	const params = {};
	for (let i = 0; i < wanted.length; i++) {
		if (wanted[i].startsWith("{")) params[wanted[i].slice(1, -1)] = decoded(given[i]);
		else if (wanted[i] !== given[i]) return null;
	}
	return params;
}

function find(pathname) {
	for (const view of VIEWS) {
		const params = fits(view.path, pathname);
		if (params) return { view, params };
	}
	return null;
}

/* ---- showing it ---- */

function markNav(view) {
	for (const link of document.querySelectorAll("#nav a")) {
		if (link.pathname === (view?.under ?? view?.path)) {
			link.setAttribute("aria-current", "page");
			link.scrollIntoView({ block: "nearest", inline: "nearest" });
		} else {
			link.removeAttribute("aria-current");
		}
	}
}

function setTitle(title) {
	document.title = `${title} · defib`;
}

function showProblem(root, error, again) {
	const said =
		error instanceof Problem
			? error
			: new Problem(-1, {
					detail: "this view could not be shown",
					next: String(error?.message ?? error),
				});
	fill(
		root,
		h(
			"div",
			{ class: "banner bad", role: "alert" },
			icon("alert"),
			h(
				"p",
				{ class: "banner-text" },
				user(said.detail),
				said.next ? [". ", user(said.next)] : null,
			),
			h("button", { type: "button", onclick: again }, "Try again"),
		),
	);
}

/* The shape of what is coming; views replace it when they know something. */
function skeleton(title) {
	return h(
		"div",
		{ class: "stack skeleton", "aria-busy": "true" },
		h("h1", title),
		h("p", { class: "sr-only" }, "Loading"),
		h("div", { class: "tiles" }, [1, 2, 3, 4].map(() => h("div", { class: "tile bone" }))),
		h("div", { class: "card bone tall" }),
	);
}

async function load(name) {
	const module = await import(`./views/${name}.js`);
	return module.default ?? module;
}

/* If another view was requested while one was loading, the latest request wins. */
async function render({ focus }) {
	const found = find(location.pathname);
	shown?.cut.abort();
	const mine = { view: found?.view, module: null, cut: new AbortController() };
	const { signal } = mine.cut;
	shown = mine;
	markNav(found?.view);
	const root = h("div", { class: "stack view" });
	fill(main, root);
	if (found) fill(root, skeleton(found.view.title));
	setTitle(found?.view.title ?? "Not found");
	if (focus) {
		main.focus({ preventScroll: true });
		scrollTo(0, 0);
	}
	if (!found) {
		fill(
			root,
			h("h1", "Page not found"),
			h(
				"p",
				"There is no page at ",
				user(location.pathname, { class: "mono" }),
				". Go to the ",
				h("a", { href: "/" }, "overview"),
				", the ",
				h("a", { href: "/jobs" }, "jobs"),
				", or press ",
				h("kbd", "/"),
				" to find a job.",
			),
		);
		return;
	}
	try {
		mine.module = await load(found.view.module);
		if (signal.aborted) return;
		await mine.module.show(root, {
			params: found.params,
			query: new URLSearchParams(location.search),
			go,
			signal,
		});
		if (signal.aborted) return;
		if (focus) announce(`${found.view.title} is shown`);
		if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
	} catch (error) {
		if (isEnd(error, signal)) return;
		if (!(error instanceof Problem)) console.error(error);
		showProblem(root, error, () => render({ focus: false }));
		if (error instanceof Problem && error.passing)
			setTimeout(() => signal.aborted || render({ focus: false }), 3000);
	}
}

/* ---- going somewhere ---- */

/* A dialog belongs to the view that is left. It may refuse to close, as with Esc. */
function closeDialogs() {
	for (const dialog of document.querySelectorAll("dialog[open]"))
		if (dialog.dispatchEvent(new Event("cancel", { cancelable: true }))) dialog.close();
}

/* Go to an address of this page; `replace`: without a history entry. */
function go(to, { replace = false } = {}) {
	const url = new URL(to, location.href);
	const samePath = url.pathname === location.pathname;
	if (replace) history.replaceState(null, "", url);
	else history.pushState(null, "", url);
	closeDialogs();
	render({ focus: !samePath });
}

function isOurs(link, event) {
	return (
		link &&
		event.button === 0 &&
		!event.defaultPrevented &&
		!event.ctrlKey &&
		!event.metaKey &&
		!event.shiftKey &&
		!event.altKey &&
		link.origin === location.origin &&
		!link.hasAttribute("download") &&
		(!link.target || link.target === "_self") &&
		!link.pathname.startsWith("/api/") &&
		link.pathname !== "/metrics" &&
		!(link.hash && link.pathname === location.pathname)
	);
}

function followLinks() {
	document.addEventListener("click", (event) => {
		const link = event.target.closest?.("a[href]");
		if (!isOurs(link, event)) return;
		event.preventDefault();
		go(link.href);
	});
	addEventListener("popstate", () => {
		closeDialogs();
		render({ focus: true });
	});
}

/* ---- the whole ---- */

function makeNav() {
	fill(
		document.getElementById("nav"),
		h(
			"ul",
			NAMED.map((view) =>
				h(
					"li",
					h(
						"a",
						{ href: view.path, title: `${view.title} (g ${view.letter})` },
						icon(view.icon),
						view.title,
					),
				),
			),
		),
	);
}

function start() {
	makeNav();
	followLinks();
	const focusSearch = startSearch(go);
	const help = () => keyHelp(NAMED);
	onTokenNeeded(askForToken);
	listenToKeys({ "/": focusSearch, "?": help, p: togglePause, t: nextTheme }, NAMED, go);
	subscribe((event) => shown?.module?.update?.(event));
	startFrame({ help });
	startBadges();
	startBackground();
	render({ focus: false });
}

start();
