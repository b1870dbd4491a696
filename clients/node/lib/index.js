// SPDX-License-Identifier: Apache-2.0
// Background jobs that do not get stuck, in tables of your own or in defib's queue: docs/node.md.
'use strict'

const {
	DefibError, UsageError, ConfigError, ConnectionLost, Refused, NotFound, LostLease, Cancelled, Retry,
	Permanent,
} = require('./errors.js')
const { Worker, Job } = require('./worker.js')
const { Heartbeat } = require('./heartbeat.js')
const { Monitor, startMonitor } = require('./monitor.js')
const { Watches, enqueue } = require('./watches.js')

module.exports = {
	Worker, Job, Heartbeat, Monitor, startMonitor, Watches, enqueue, DefibError, UsageError,
	ConfigError, ConnectionLost, Refused, NotFound, LostLease, Cancelled, Retry, Permanent,
}
