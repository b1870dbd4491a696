// SPDX-License-Identifier: Apache-2.0
// A process of defib beside this one, which is started again if it ends by itself.
//
// It has a session of its own, so that Ctrl-C reaches only this process, which then stops it. It
// ends when this process does, however that happens: its standard input is closed then.
'use strict'

const { spawn } = require('node:child_process')
const { EventEmitter } = require('node:events')
const { ConfigError, ConnectionLost, UsageError, errorOf } = require('./errors.js')
const program = require('./program.js')

const RESTART_FIRST_MS = 100
const RESTART_MOST_MS = 30000
const STEADY_MS = 30000 // after so long, a start counts as successful
const STDERR_KEPT = 4096

class Beside extends EventEmitter {
	constructor(options) {
		super()
		this.options = options
		this.child = null
		this.stopping = false
		this.pauseMs = RESTART_FIRST_MS
		this.starting = null
		this.ended = new Promise((resolve) => { this.resolveEnded = resolve })
	}

	// For subclasses: the arguments, a line of the process and of its log, what to do when it has
	// ended, how to ask it to stop.
	args() { return [] }
	heard(_line) {}
	logged(_line) {}
	left(_why) { return Promise.resolve() }
	ask() { this.child.stdin.end() }

	// Resolves when the process is ready; rejects if the first one ends before that.
	start() {
		if (this.starting) throw new UsageError('it has been started')
		this.starting = new Promise((resolve, reject) => {
			this.started = { resolve, reject }
		})
		this.spawn()
		return this.starting
	}

	spawn() {
		const { log, quiet, cwd } = this.options
		const name = program.programOf(this.options)
		const args = [...this.args(), ...program.configOf(this.options),
			...(log ? ['--log', 'json'] : []), ...(quiet ? ['--quiet'] : [])]
		const child = spawn(name, args, {
			cwd, env: program.environmentOf(this.options), detached: true,
			stdio: ['pipe', 'pipe', 'pipe'],
		})
		this.child = child
		this.since = Date.now()
		let said = ''
		program.eachLine(child.stderr, (line) => {
			said = `${said}${line}\n`.slice(-STDERR_KEPT)
			this.logged(line)
			if (log) log(program.entryOf(line))
			else process.stderr.write(`${line}\n`)
		})
		child.stdin.on('error', () => {}) // its end is reported below
		program.eachLine(child.stdout, (line) => this.heard(line))
		child.on('error', (why) => this.over(program.notStarted(name, why), null))
		child.on('close', (code, signal) => {
			if (child.pid === undefined) return
			this.over(errorOf(code ?? signal, said, `defib ${args[0]}`), code)
		})
	}

	ready() {
		if (!this.started) return
		this.started.resolve(this)
		this.started = null
	}

	async over(why, code) {
		this.child = null
		await this.left(why)
		// A database that was away and is back may not have its tables yet.
		const waits = this.options.waitForDatabase &&
			(why instanceof ConnectionLost || (this.waited && why instanceof ConfigError))
		this.waited = waits
		if (this.stopping) this.ready()
		if (this.started && !waits) {
			this.started.reject(why)
			this.started = null
			this.stopping = true
		}
		if (this.stopping || (code === 0 && this.mayEnd())) {
			clearTimeout(this.timer)
			this.resolveEnded(code)
			return
		}
		if (Date.now() - this.since > STEADY_MS) this.pauseMs = RESTART_FIRST_MS
		this.emit('restart', { why, afterMs: this.pauseMs })
		this.timer = setTimeout(() => this.spawn(), this.pauseMs)
		this.pauseMs = Math.min(this.pauseMs * 2, RESTART_MOST_MS)
	}

	// Whether it may end by itself.
	mayEnd() { return false }

	// Stop it; resolves when it has ended. A second call of a worker asks handlers to stop at once.
	stop() {
		this.stopping = true
		clearTimeout(this.timer)
		if (this.child) {
			this.ask()
		} else {
			this.ready() // it waited for a database
			this.resolveEnded(null)
		}
		return this.ended
	}
}

module.exports = { Beside }
