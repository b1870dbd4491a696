// SPDX-License-Identifier: Apache-2.0
/*
 * table.js: a table whose rows do not move. While the user points at it, has the focus in it or
 * has selected something, new data changes cells in place; new rows wait behind a button
 * ("3 new"), rows that are gone stay dimmed. So a click never hits a row that was another one a
 * moment ago.
 *
 *   const t = table({
 *     label: "Jobs of pages",
 *     columns: [{ name: "job", title: "Job", cell: (row) => … }, { name: "age", title: "Age", num: true, cell: … }],
 *     key: (row) => row.job,
 *     title: (row) => row.job,           the name of a row, for its box
 *     select: true,                      boxes; calls onselect(keys)
 *     more: async () => {…},             "Load more"; append() the rows, hasMore() if there are more
 *     empty: "Nothing is stuck.",
 *   });
 *   root.append(t.element); t.set(rows); t.refresh(rows); t.append(rows); t.hasMore(true); t.selected();
 *
 * Keys: j or ↓ next, k or ↑ previous, Enter its first link, x or Space select; with Shift all
 * rows in between are selected, as by a click on a box with Shift.
 */
import { announce, fill, h } from "./dom.js";
import { count, meaning } from "./words.js";

export function table(options) {
	return new Table(options);
}

class Table {
	constructor(options) {
		this.options = { columns: [], empty: "Nothing here.", ...options };
		this.rows = new Map(); /* by key: {row, element, box} */
		this.latest = null; /* what refresh() brought and is not shown yet */
		this.chosen = new Set();
		this.body = h("tbody", { role: "rowgroup" });
		this.news = h("button", {
			type: "button",
			class: "news",
			hidden: true,
			onclick: () => this.#showNews(),
		});
		this.moreButton = h(
			"button",
			{ type: "button", hidden: true, onclick: () => this.#more() },
			"Load more",
		);
		this.emptyLine = h("p", { class: "empty", hidden: true }, this.options.empty);
		this.element = h(
			"div",
			{ class: "table" },
			this.news,
			this.#box(),
			this.emptyLine,
			h("div", { class: "table-foot" }, this.moreButton),
		);
		this.element.addEventListener("pointerenter", () => {
			this.pointed = true;
		});
		this.element.addEventListener("pointerleave", () => {
			this.pointed = false;
		});
		this.body.addEventListener("keydown", (event) => this.#key(event));
	}

	#box() {
		const { columns, label, select, narrow } = this.options;
		this.all =
			select &&
			h("input", {
				type: "checkbox",
				"aria-label": "Select all rows shown",
				onchange: () => this.#chooseAll(),
			});
		const heads = columns.map((c) =>
			h(
				"th",
				{
					role: "columnheader",
					scope: "col",
					class: `${c.num ? "num " : ""}${c.name}`,
					title: meaning(c.title),
				},
				c.title,
			),
		);
		return h(
			"div",
			{ class: "table-box", role: "group", "aria-label": label, tabindex: 0 },
			h(
				"table",
				{ role: "table", class: narrow === "scroll" ? "" : "cards", "aria-label": label },
				h(
					"thead",
					{ role: "rowgroup" },
					h(
						"tr",
						{ role: "row" },
						select
							? h(
									"th",
									{ role: "columnheader", scope: "col", class: "select" },
									this.all,
								)
							: null,
						heads,
					),
				),
				this.body,
			),
		);
	}

	/* ---- rows ---- */

	/* Exactly these, in this order. */
	set(rows) {
		const before = this.rows;
		this.rows = new Map();
		this.latest = null;
		this.news.hidden = true;
		for (const row of rows) {
			const key = this.#keyOf(row);
			this.rows.set(key, this.#update(before.get(key) ?? this.#make(key), row));
		}
		const wanted = [...this.rows.values()].map((r) => r.element);
		const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
		if (
			wanted.length !== this.body.children.length ||
			wanted.some((e, i) => e !== this.body.children[i])
		) {
			this.body.replaceChildren(...wanted);
			if (focused?.isConnected) focused.focus({ preventScroll: true });
		}
		this.#forgetGone();
		this.#counted();
	}

	/* New data for the same query. */
	refresh(rows) {
		if (!this.isBusy()) {
			this.set(rows);
			return;
		}
		const now = new Map(rows.map((row) => [this.#keyOf(row), row]));
		for (const [key, shown] of this.rows) {
			const row = now.get(key);
			if (row) this.#update(shown, row);
			shown.element.classList.toggle("gone", !row);
		}
		this.latest = rows;
		this.#sayNews([...now.keys()].filter((key) => !this.rows.has(key)).length);
	}

	/* The next page. */
	append(rows) {
		for (const row of rows) {
			const key = this.#keyOf(row);
			const known = this.rows.get(key);
			const shown = this.#update(known ?? this.#make(key), row);
			this.rows.set(key, shown);
			if (!known) this.body.append(shown.element);
		}
		this.#counted();
	}

	/* Newer rows, which come first: behind the button while the user is busy here. */
	prepend(rows) {
		const shown = this.latest ?? [...this.rows.values()].map((r) => r.row);
		const keys = new Set(rows.map((row) => this.#keyOf(row)));
		this.refresh([...rows, ...shown.filter((row) => !keys.has(this.#keyOf(row)))]);
	}

	hasMore(more) {
		this.moreButton.hidden = !more;
	}

	/* Rows that are shown, in order. */
	shown() {
		return [...this.rows.values()].map((r) => r.row);
	}

	/* The user points at it, has the focus in it, or has selected something. */
	isBusy() {
		return (
			this.rows.size > 0 &&
			(this.pointed || this.chosen.size > 0 || this.body.contains(document.activeElement))
		);
	}

	#keyOf(row) {
		return String(this.options.key(row));
	}

	#make(key) {
		const element = h("tr", { role: "row", tabindex: -1 });
		const box =
			this.options.select &&
			h("input", {
				type: "checkbox",
				onclick: (event) => this.#choose(key, box.checked, event.shiftKey),
			});
		return { element, box, cells: null };
	}

	#update(shown, row) {
		const { columns, title } = this.options;
		shown.row = row;
		shown.element.classList.remove("gone");
		if (shown.box)
			shown.box.setAttribute("aria-label", `Select ${title ? title(row) : this.#keyOf(row)}`);
		shown.cells ??= this.#cells(shown);
		columns.forEach((c, i) => {
			const cell = shown.cells[i];
			const next = h("td", {}, c.cell(row));
			/* What did not change is left alone: focus and selected text stay. */
			if (!sameInside(cell, next)) fill(cell, ...next.childNodes);
		});
		return shown;
	}

	#cells(shown) {
		const { columns } = this.options;
		const cells = columns.map((c) =>
			h("td", {
				role: "cell",
				class: `${c.num ? "num " : ""}${c.name}`,
				"data-label": c.title,
			}),
		);
		fill(
			shown.element,
			shown.box ? h("td", { role: "cell", class: "select" }, shown.box) : null,
			cells,
		);
		return cells;
	}

	#counted() {
		this.emptyLine.hidden = this.rows.size > 0;
		this.element.classList.toggle("is-empty", this.rows.size === 0);
		this.#chosenChanged();
	}

	/* ---- what is new ---- */

	#sayNews(n) {
		const gone = [...this.rows.values()].filter((r) =>
			r.element.classList.contains("gone"),
		).length;
		const said = [n ? `${count(n)} new` : "", gone ? `${count(gone)} gone` : ""]
			.filter(Boolean)
			.join(", ");
		if (said && this.news.textContent !== `${said} · show`) announce(said);
		this.news.textContent = `${said} · show`;
		this.news.hidden = !said;
	}

	#showNews() {
		const rows = this.latest;
		if (rows) this.set(rows);
	}

	async #more() {
		this.moreButton.disabled = true;
		try {
			await this.options.more();
		} finally {
			this.moreButton.disabled = false;
		}
	}

	/* ---- selection ---- */

	/* Rows that are selected. */
	selected() {
		return [...this.chosen].map((key) => this.rows.get(key)?.row).filter(Boolean);
	}

	clearSelection() {
		this.chosen.clear();
		this.#chosenChanged();
	}

	/* `all`: including those since the previous one. */
	#choose(key, on, all = false) {
		const keys = [...this.rows.keys()];
		const from = all ? keys.indexOf(this.chosenLast) : -1,
			to = keys.indexOf(key);
		const these = from < 0 ? [key] : keys.slice(Math.min(from, to), Math.max(from, to) + 1);
		for (const one of these) {
			if (on) this.chosen.add(one);
			else this.chosen.delete(one);
		}
		this.chosenLast = key;
		this.#chosenChanged();
	}

	/* The row and the one to go to. */
	#chooseBoth(at, next) {
		const keys = [...this.rows]
			.filter(([, shown]) => shown.element === at || shown.element === next)
			.map(([key]) => key);
		for (const key of keys) this.#choose(key, true);
		next?.focus();
	}

	#chooseAll() {
		this.chosen = new Set(this.all.checked ? this.rows.keys() : []);
		this.#chosenChanged();
	}

	#forgetGone() {
		for (const key of this.chosen) if (!this.rows.has(key)) this.chosen.delete(key);
	}

	#chosenChanged() {
		if (!this.options.select) return;
		for (const [key, shown] of this.rows) {
			shown.box.checked = this.chosen.has(key);
			shown.element.classList.toggle("selected", shown.box.checked);
		}
		this.all.checked = this.rows.size > 0 && this.chosen.size === this.rows.size;
		this.all.indeterminate = this.chosen.size > 0 && !this.all.checked;
		this.options.onselect?.(this.selected());
	}

	/* ---- keys ---- */

	/* To the first row, from outside. */
	focus() {
		this.body.firstElementChild?.focus();
	}

	#key(event) {
		if (
			event.ctrlKey ||
			event.metaKey ||
			event.altKey ||
			event.target.matches("select, textarea, input:not([type=checkbox])")
		)
			return;
		const at = event.target.closest("tr");
		const moves = {
			j: at.nextElementSibling,
			ArrowDown: at.nextElementSibling,
			k: at.previousElementSibling,
			ArrowUp: at.previousElementSibling,
		};
		const move = event.key.length === 1 ? event.key.toLowerCase() : event.key;
		if (event.shiftKey && this.options.select && move in moves) {
			this.#chooseBoth(at, moves[move]);
		} else if (event.key in moves) {
			moves[event.key]?.focus();
		} else if (event.key === "x" || (event.key === " " && event.target === at)) {
			at.querySelector("td.select input")?.click();
		} else if (event.key === "Enter" && event.target === at) {
			at.querySelector("a")?.click();
		} else {
			return;
		}
		event.preventDefault();
	}
}

function sameInside(a, b) {
	return (
		a.childNodes.length === b.childNodes.length &&
		[...a.childNodes].every((node, i) => node.isEqualNode(b.childNodes[i]))
	);
}
