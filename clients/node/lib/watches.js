// SPDX-License-Identifier: Apache-2.0
// Watches: the tables that a configuration describes, and what can be done to their jobs.
'use strict'

const { NotFound, DefibError, UsageError } = require('./errors.js')
const { checkOptions, milliseconds, optionsOf, run, runJson } = require('./program.js')

const STUCK = 1, PARTLY = 6

function jobOf(watch, key) {
	if (!watch || key === undefined || key === null) throw new UsageError('a watch and a key are needed')
	return `${watch}/${Array.isArray(key) ? JSON.stringify(key) : key}`
}

// A row that is not there is an answer, not a mistake of the caller.
async function orNotFound(call) {
	try {
		return await call
	} catch (why) {
		if (!(why instanceof DefibError) || !/no such row|no row with that key/.test(why.message)) throw why
		throw new NotFound(why.message, { code: 'NOT_FOUND', exitCode: why.exitCode })
	}
}

class Watches {
	constructor(options = {}) {
		checkOptions('Watches', options)
		this.options = options
	}

	// One pass: find stuck jobs and, with `fix`, recover them. Watches whose database is down are
	// reported with their `error`; the others are scanned.
	async scan(options = {}) {
		checkOptions('scan', options)
		const { watch, fix = false, limit, remedy, reason, thresholdMs } = options
		const args = ['scan', ...[watch ?? []].flat(), ...optionsOf({
			fix, limit, remedy, reason, threshold: milliseconds('thresholdMs', thresholdMs),
		})]
		return (await runJson(args, this.options, { accept: [0, STUCK, PARTLY] })).value
	}

	// Do an act to jobs, by the name of its command: 'requeue', 'hold', 'release', … `runningOnly`:
	// not to jobs that wait or have ended, for a result that may come late.
	async act(watch, act, keys, options = {}) {
		checkOptions('act', options)
		const { reason, step, dryRun = false, overrideGuard = false, runningOnly = false } = options
		const args = [act, ...[keys].flat().map((key) => jobOf(watch, key)), ...optionsOf({
			yes: !dryRun, 'dry-run': dryRun, reason, 'from-step': step,
			'override-guard': overrideGuard, 'running-only': runningOnly,
		})]
		const ran = await orNotFound(runJson(args, this.options, { accept: [0, STUCK, PARTLY] }))
		return ran.value.watches[0]
	}

	// Make one job available again, or with no key all that are stuck.
	reset(watch, key, options) {
		if (key !== undefined) return this.act(watch, 'requeue', key, options)
		return this.scan({ ...options, watch, fix: true })
	}

	// Why a job is, or is not, stuck, and what a scan would do.
	async explain(watch, key) {
		const args = ['explain', jobOf(watch, key)]
		return (await orNotFound(runJson(args, this.options, { accept: [0, STUCK] }))).value
	}

	// One job: its state, whether it is stuck and why, its row and its history.
	async status(watch, key) {
		const args = ['show', jobOf(watch, key)]
		return (await orNotFound(runJson(args, this.options, { accept: [0, STUCK] }))).value
	}

	// Counts of a watch, or of all: by state, completed, failed, average duration, recovered.
	async stats(watch) {
		const args = ['stats', ...[watch ?? []].flat()]
		const { value } = await runJson(args, this.options, { accept: [0, STUCK, PARTLY] })
		return watch === undefined ? value.watches : value.watches[0]
	}

	// Undo a batch, for those jobs that were not claimed or changed since.
	async undo(batch) {
		return (await runJson(['undo', batch, '--yes'], this.options, { accept: [0, PARTLY] })).value
	}
}

const ENQUEUE_TYPES = ['text', 'text', 'jsonb', 'bigint', 'integer', 'integer', 'integer', 'text',
	'text[]']

// The same as a statement of the caller, in the caller's own transaction.
async function enqueueWith(client, queue, kind, payload, options) {
	const { delayMs = 0, priority = 0, maxAttempts = 5, timeoutMs, uniqueKey, tags } = options
	const given = [queue, kind, payload === undefined ? undefined : JSON.stringify(payload), delayMs,
		priority, maxAttempts, timeoutMs, uniqueKey, tags]
	// Every parameter with its type: no other function of the name can fit better.
	const list = ENQUEUE_TYPES.map((type, i) => `$${i + 1}::${type}`).join(', ')
	const { rows } = await client.query(`SELECT defib.enqueue(${list}) AS id`, given)
	return String(rows[0].id)
}

// Put a job into the built-in queue; resolves to its id. The payload is not visible to `ps`.
async function enqueue(queue, kind, payload, options = {}) {
	checkOptions('enqueue', options)
	const { client, delayMs, priority, uniqueKey, maxAttempts, timeoutMs, tags, spool } = options
	if (client) return enqueueWith(client, queue, kind, payload, options)
	const { out } = await run(['enqueue', queue, kind, '-', ...optionsOf({
		delay: milliseconds('delayMs', delayMs), priority, 'unique-key': uniqueKey,
		'max-attempts': maxAttempts, timeout: milliseconds('timeoutMs', timeoutMs),
		tags: tags?.join(','), spool,
	})], options, { input: JSON.stringify(payload ?? null) })
	return out.trim()
}

module.exports = { Watches, enqueue }
