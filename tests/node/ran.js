// SPDX-License-Identifier: Apache-2.0
// What both strangers note of a run, in the tests' own table `ran`.
"use strict";

// Who has run a job before its first end does not wait again: a job that was freed is over soon.
async function began(query, name) {
	const { rows } = await query(
		"INSERT INTO ran (job, worker) VALUES ($1, $2) " +
		"RETURNING id, (SELECT count(*) FROM ran WHERE job = $1)::int AS before",
		[name, process.env.STRANGER]);
	return rows[0];
}

function ended(query, { id }) {
	return query("UPDATE ran SET ended_at = clock_timestamp() WHERE id = $1", [id]);
}

// The first run takes hold_s seconds, later ones no time.
function held({ hold_s }, { before }) {
	return new Promise((go) => setTimeout(go, before ? 0 : hold_s * 1000));
}

module.exports = { began, ended, held };
