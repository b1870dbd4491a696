// SPDX-License-Identifier: Apache-2.0
// What can go wrong, by the same names as in the Python package.
'use strict'

// A command of defib failed: one line that says what and why.
class DefibError extends Error {
	constructor(message, { code = '', next = '', exitCode = null } = {}) {
		super(message)
		this.name = new.target.name
		this.code = code
		this.next = next // what to do, or ''
		this.exitCode = exitCode
	}
}
class UsageError extends DefibError {}
class ConfigError extends DefibError {}
class ConnectionLost extends DefibError {}
class Refused extends DefibError {}
class NotFound extends DefibError {}

// The job no longer belongs to this worker. Stop: nothing that it returns will be accepted.
class LostLease extends DefibError {
	constructor(message) {
		super(message, { code: 'LEASE_LOST' })
	}
}

// The job was asked to stop: it was cancelled, is over its time limit, or the worker stops.
class Cancelled extends Error {
	constructor(message, because = 'cancelled') {
		super(message)
		this.name = 'Cancelled'
		this.because = because // 'cancelled', 'timeout' or 'shutdown'
	}
}

// Thrown by a handler: run the job again later. Attempts limit rows of a watch, not the queue.
class Retry extends Error {
	constructor(message, options = {}) {
		require('./program.js').checkOptions('Retry', options) // which needs this file itself
		super(message)
		this.name = 'Retry'
		this.afterMs = options.afterMs ?? null
	}
}

// Thrown by a handler: a retry cannot fix it.
class Permanent extends Error {
	constructor(message) {
		super(message)
		this.name = 'Permanent'
	}
}

const BY_EXIT = { 2: UsageError, 3: ConfigError, 4: ConnectionLost, 5: Refused }

// The error of a command that failed, from what it wrote to standard error.
function errorOf(exitCode, stderr, what) {
	const lines = stderr.split('\n').filter((line) => line.trim() !== '')
	const said = (lines.pop() || `${what} ended with exit code ${exitCode}`).replace(/^defib: /, '')
	const Class = BY_EXIT[exitCode] || DefibError
	return new Class(said, { exitCode })
}

module.exports = {
	DefibError, UsageError, ConfigError, ConnectionLost, Refused, NotFound, LostLease, Cancelled,
	Retry, Permanent, errorOf,
}
