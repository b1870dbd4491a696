# SPDX-License-Identifier: Apache-2.0
"""Background jobs that do not get stuck, in tables of your own or in defib's queue.

    Watches           scan, act, explain, undo and end jobs of tables that a defib.yaml describes
    Worker            handlers as functions or coroutines, on such a table or on the queue
    Heartbeat         signs of life of a job that your own code runs
    Instance          your own code works on the table: clean-up at start, recovery, sessions
    Monitor           the daemon beside your program: alerts, reports, metrics, the page
    Database          the queue and the ledger; AsyncDatabase for coroutines
    enqueue           a job inside your own transaction

The engine is libdefib's; see docs/python.md.
"""

from .errors import (Cancelled, ConfigError, ConnectionLost, Error, Locked, LostLease, NoSession,
                     NotFound, Permanent, Refused, Retry, UnknownOutcome, UsageError)
from .heartbeat import Heartbeat
from .instance import Burst, Instance, staggered
from .database import AsyncDatabase, Database, Entry, enqueue, enqueue_async
from .monitor import Monitor
from .watches import AsyncWatches, Finding, Result, Watches
from .worker import Job, Step, Worker

__all__ = ["AsyncDatabase", "AsyncWatches", "Burst", "Cancelled", "ConfigError", "ConnectionLost",
           "Database", "Entry", "Error", "Finding", "Heartbeat", "Instance", "Job", "Locked",
           "LostLease", "Monitor", "NoSession", "NotFound", "Permanent", "Refused", "Result",
           "Retry", "Step", "UnknownOutcome", "UsageError", "Watches", "Worker", "enqueue",
           "enqueue_async", "staggered"]
