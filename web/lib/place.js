// SPDX-License-Identifier: Apache-2.0
/*
 * place.js: how far a tab is in the ledgers of all databases. The id of an event is such a place,
 * as text: "main=123,other=45". Events from another tab are compared with it: those already seen
 * are skipped, and missing ones are noticed.
 */

/* By the name as in the id (percent-encoded): the last entry. */
function parse(id) {
	return new Map(
		(id ?? "")
			.split(",")
			.filter(Boolean)
			.map((each) => {
				const [name, number] = each.split("=");
				return [name, Number(number)];
			}),
	);
}

export class Place {
	#at = new Map();

	/* For Last-Event-ID; null: nothing was seen yet. */
	get id() {
		return this.#at.size ? [...this.#at].map((pair) => pair.join("=")).join(",") : null;
	}

	/* Whether there are entries between here and an id. If nothing was seen, nothing is missed. */
	isBehind(id) {
		return (
			this.#at.size > 0 &&
			[...parse(id)].some(([name, number]) => number > (this.#at.get(name) ?? -1))
		);
	}

	/* Whether an entry of a ledger was seen here. */
	has({ database, id }) {
		return [...this.#at].some(
			([name, number]) => decodeURIComponent(name) === database && id <= number,
		);
	}

	/* Forward to an id, never back … */
	move(id) {
		for (const [name, number] of parse(id))
			this.#at.set(name, Math.max(number, this.#at.get(name) ?? -1));
	}

	/* … except if the ledger was replaced by another. */
	jump(id) {
		this.#at = parse(id);
	}
}
