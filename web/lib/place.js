// SPDX-License-Identifier: Apache-2.0
/*
 * place.js: how far a tab is in the ledgers of all databases. The id of an event is such a place,
 * as text: "main=123@3fa85f64,other=45@07c1d2e9". Events from another tab are compared with it:
 * those already seen are skipped, and missing ones are noticed. Numbers of two ledgers (after the
 * @) are not compared: the tables were made again.
 */

/* By the name as in the id (percent-encoded): the last entry, and of which ledger. */
function parse(id) {
	return new Map(
		(id ?? "")
			.split(",")
			.filter(Boolean)
			.map((each) => {
				const [name, place] = each.split("=");
				const [number, of = ""] = place.split("@");
				return [name, { number: Number(number), of }];
			}),
	);
}

/* Of another ledger; one that is not known may be the same. */
const differs = (here, there) => Boolean(here.of && there.of) && here.of !== there.of;

const text = ([name, { number, of }]) => `${name}=${number}${of && "@"}${of}`;

export class Place {
	#at = new Map();

	/* For Last-Event-ID; null: nothing was seen yet. */
	get id() {
		return this.#at.size ? [...this.#at].map(text).join(",") : null;
	}

	/* Whether there are entries between here and an id. If nothing was seen, nothing is missed. */
	isBehind(id) {
		return (
			this.#at.size > 0 &&
			[...parse(id)].some(([name, there]) => {
				const here = this.#at.get(name);
				return !here || differs(here, there) || there.number > here.number;
			})
		);
	}

	/* Whether an entry of a ledger was seen here. */
	has({ database, id }) {
		return [...this.#at].some(
			([name, { number }]) => decodeURIComponent(name) === database && id <= number,
		);
	}

	/* Forward to an id, never back … */
	move(id) {
		for (const [name, there] of parse(id)) {
			const here = this.#at.get(name);
			if (!here || differs(here, there) || there.number > here.number) this.#at.set(name, there);
		}
	}

	/* … except if the ledger was replaced by another. */
	jump(id) {
		this.#at = parse(id);
	}
}
