// SPDX-License-Identifier: Apache-2.0
// The daemon beside a program: it scans the watches of a configuration while this process lives.
'use strict'

const { Beside } = require('./beside.js')
const { checkOptions, optionsOf } = require('./program.js')

class Monitor extends Beside {
	constructor(options = {}) {
		checkOptions('Monitor', options)
		super(options)
	}

	args() {
		const o = this.options
		return ['daemon', ...(o.watches || []), '--while-stdin-open', ...optionsOf({
			'no-queue': !o.queue && !o.watches?.length, work: o.work, listen: o.listen,
		})]
	}

	logged(line) {
		if (line.includes('daemon started')) this.ready()
	}
}

// Start the daemon beside this process; resolves when it runs. Its stop() ends it.
function startMonitor(options = {}) {
	return new Monitor(options).start()
}

module.exports = { Monitor, startMonitor }
