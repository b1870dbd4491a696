// SPDX-License-Identifier: Apache-2.0
// Signs of life of a row that your own code works on: `defib beat` writes them, one process for all
// rows of a watch.
'use strict'

const { EventEmitter } = require('node:events')
const os = require('node:os')
const { Beside } = require('./beside.js')
const { DefibError, LostLease, UsageError } = require('./errors.js')
const { checkOptions, milliseconds, optionsOf } = require('./program.js')

class Beats extends Beside {
	rows = new Map()

	args() {
		const o = this.options
		return ['beat', o.watch, ...optionsOf({
			worker: o.worker ?? `${os.hostname()}-${process.pid}`,
			every: milliseconds('everyMs', o.everyMs),
			tries: o.tries,
			retry: milliseconds('retryMs', o.retryMs),
		})]
	}

	say(line) {
		if (this.child && this.running) this.child.stdin.write(`${JSON.stringify(line)}\n`)
	}

	heard(text) {
		const line = JSON.parse(text)
		if (line.is === 'ready') {
			this.running = true
			this.ready()
			// After a restart: what had begun goes on.
			for (const row of this.rows.values()) row.say({ again: row.begun })
		}
		this.rows.get(line.key)?.heard(line)
	}

	async left() {
		this.running = false
	}
}

const processes = new Map()

// The process for these options, started when it is first needed.
async function processOf(options) {
	const { bin, config, url, cwd, watch, worker, everyMs, tries, retryMs } = options
	const name = JSON.stringify([bin, config, url, cwd, watch, worker, everyMs, tries, retryMs])
	if (!processes.has(name)) {
		const beats = new Beats(options)
		beats.name = name
		processes.set(name, beats)
		beats.starting = beats.start()
	}
	const beats = processes.get(name)
	try {
		await beats.starting
	} catch (why) {
		processes.delete(name)
		throw why
	}
	return beats
}

class Heartbeat extends EventEmitter {
	#beats = null
	#controller = new AbortController()
	#waiting = null

	constructor(options) {
		checkOptions('Heartbeat', options)
		super()
		const { watch, key, step = null, metadata = null } = options
		if (!watch || key === undefined || key === null) {
			throw new UsageError('a heartbeat needs a watch and a key')
		}
		this.options = options
		this.key = Array.isArray(key) ? JSON.stringify(key) : String(key)
		this.now = { step, metadata }
		this.begun = false
	}

	// Aborted with a LostLease when the row is no longer running, or has another owner.
	get signal() { return this.#controller.signal }
	get lost() { return this.signal.aborted }
	check() { this.signal.throwIfAborted() }

	// Write the first heartbeat, which may fail, and begin.
	async start() {
		this.#beats = await processOf(this.options)
		if (this.#beats.rows.has(this.key)) {
			throw new UsageError(`${this.key} of ${this.options.watch} has a heartbeat`)
		}
		const begun = new Promise((resolve, reject) => { this.#waiting = { resolve, reject } })
		this.#beats.rows.set(this.key, this)
		this.say({})
		await begun
		return this
	}

	// Another step, and other metadata; written at once. Throws as check() does.
	step(step, metadata = null) {
		this.check()
		this.now = { step, metadata }
		this.say({})
	}

	// No heartbeat follows. The process ends with its last row.
	async stop() {
		const beats = this.#beats
		if (!beats || beats.rows.get(this.key) !== this) return
		if (beats.running) {
			const ended = new Promise((resolve) => { this.#waiting = { resolve, reject: resolve } })
			beats.once('restart', () => this.#waiting?.resolve())
			beats.say({ do: 'end', key: this.key })
			await ended
		}
		await this.#leave()
	}

	async #leave() {
		const beats = this.#beats
		beats.rows.delete(this.key)
		if (beats.rows.size > 0 || processes.get(beats.name) !== beats) return
		processes.delete(beats.name)
		await beats.stop()
	}

	// Run a function between start() and stop().
	static async during(options, work) {
		const beat = await new Heartbeat(options).start()
		try {
			return await work(beat)
		} finally {
			await beat.stop()
		}
	}

	// ---- for the process

	say(more) {
		this.#beats.say({ do: 'beat', key: this.key, ...this.now, ...more })
	}

	heard(line) {
		const waiting = this.#waiting
		if (line.is === 'beating' || line.is === 'ended') {
			this.begun = true
			this.#waiting = null
			waiting?.resolve()
			return
		}
		const why = line.is === 'lost' ? new LostLease(line.message) : new DefibError(line.message)
		if (!this.begun) {
			this.#waiting = null
			this.#leave()
			waiting?.reject(why)
		} else if (line.is === 'lost') {
			this.#controller.abort(why)
			this.#leave()
			this.emit('lost', why)
		} else {
			this.emit('failed', why)
		}
	}
}

module.exports = { Heartbeat }
