// SPDX-License-Identifier: Apache-2.0
/*
 * icon.js: the few pictures of this page: strokes on a grid of 16, in the colour of the text beside
 * them. A picture is never alone: the word is always there, visible or for screen readers.
 */
import { s } from "./dom.js";

const PATHS = {
	alert: "M8 2.5 14.5 13.5H1.5ZM8 6.5v3.2M8 11.6v.1",
	arrow: "M3 8h10M9 4l4 4-4 4",
	bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1.5H3ZM6.5 14.5h3",
	board: "M2 2h5v7H2ZM9 2h5v4H9ZM9 8h5v6H9ZM2 11h5v3H2Z",
	bolt: "M9 1.5 3 9h4l-1 5.5L13 7H8.5Z",
	book: "M3 2.5h8a2 2 0 0 1 2 2v9H5a2 2 0 0 1-2-2ZM3 11.5a2 2 0 0 1 2-1.5h8M6 5.5h4",
	chart: "M2 14h12M4 11V7M8 11V3M12 11V9",
	check: "M3 8.5 6.5 12 13 4.5",
	clock: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8ZM8 4.5V8l2.5 1.8",
	copy: "M5.5 5.5h8v8h-8ZM10.5 5.5V2.5h-8v8h3",
	cross: "M4 4l8 8M12 4l-8 8",
	dot: "M8 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3Z",
	database:
		"M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2ZM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
	download: "M8 2v8M4.5 6.5 8 10l3.5-3.5M2.5 13.5h11",
	hand: "M5 8V3.8a1 1 0 0 1 2 0V7M7 7V2.8a1 1 0 0 1 2 0V7M9 7V3.8a1 1 0 0 1 2 0v5M5 8 4 6.8a1 1 0 0 0-1.6 1.1l2 4.1a4 4 0 0 0 3.6 2.2h.5A3.5 3.5 0 0 0 13 10.7V6a1 1 0 0 0-2 0",
	heart: "M1.5 8h3L6 4.5 9 12l1.7-4h3.8",
	list: "M5.5 4H14M5.5 8H14M5.5 12H14M2.3 4h.1M2.3 8h.1M2.3 12h.1",
	menu: "M2 4h12M2 8h12M2 12h12",
	minus: "M4 8h8",
	moon: "M13.5 9.5A6 6 0 1 1 6.5 2.5a5 5 0 0 0 7 7Z",
	none: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM4 12 12 4",
	pause: "M5.5 3v10M10.5 3v10",
	play: "M4.5 2.5v11l9-5.5Z",
	queue: "M2 3h12v3H2ZM2 10h12v3H2Z",
	question:
		"M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.7v.1M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z",
	redo: "M13 3v4H9M12.7 7A5 5 0 1 0 13 9.5",
	screen: "M2 3h12v8H2ZM5.5 14h5M8 11v3",
	search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.5 10.5 14 14",
	shield: "M8 1.8 13.5 4v4c0 3.2-2.3 5.3-5.5 6.3C4.8 13.3 2.5 11.2 2.5 8V4Z",
	sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3",
	undo: "M3 3v4h4M3.3 7A5 5 0 1 1 3 9.5",
	worker: "M8 2a2.8 2.8 0 1 0 0 5.6A2.8 2.8 0 0 0 8 2ZM2.5 14a5.5 5.5 0 0 1 11 0",
};

export function icon(name) {
	return s(
		"svg",
		{ class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
		s("path", { d: PATHS[name] ?? PATHS.dot }),
	);
}
