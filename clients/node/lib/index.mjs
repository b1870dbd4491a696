// SPDX-License-Identifier: Apache-2.0
import defib from './index.js'

export const {
	Worker, Job, Heartbeat, Monitor, startMonitor, Watches, enqueue, DefibError, UsageError,
	ConfigError, ConnectionLost, Refused, NotFound, LostLease, Cancelled, Retry, Permanent,
} = defib
export default defib
