# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, one class per class of error of the library."""

from __future__ import annotations


class Error(Exception):
    """A call of the library failed: one line that says what and why.

    `code` is the name of its class ("CONNECTION"), `next` says what to do, or is "".
    """

    code = ""

    def __init__(self, what: str, next: str = "", code: str = "") -> None:
        super().__init__(what)
        self.next = next
        self.code = code or self.code

    def __str__(self) -> str:
        """What and why, and what to do: all that a log or a traceback shows of it."""
        what = super().__str__()
        return f"{what}; {self.next}" if self.next else what


class UsageError(Error):
    """A call with wrong arguments."""


class ConfigError(Error):
    """The configuration is wrong, or does not fit the database."""


class ConnectionLost(Error):
    """The database cannot be reached; nothing was done."""


class UnknownOutcome(Error):
    """The reply was lost: the request may have been carried out. Read again."""


class Refused(Error):
    """A guard refused it."""


class NotFound(Error):
    """There is no such row, watch or job."""


class Locked(Error):
    """Another transaction holds it; try again."""


class LostLease(Error):
    """The job no longer belongs to this worker. Stop: nothing it writes will be accepted."""

    code = "LEASE_LOST"


class NoSession(Error):
    """The program got no session of its own; the item was failed with that reason."""

    code = "CONNECTION"


class Cancelled(Exception):
    """The job was asked to stop: it was cancelled, is over its time limit, or the worker stops."""


class Retry(Exception):
    """Raised by a handler: run the job again later. Attempts limit rows of a watch, not the queue."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Permanent(Exception):
    """Raised by a handler: a retry cannot fix it."""


BY_CODE: dict[str, type[Error]] = {
    "USAGE": UsageError, "CONFIG": ConfigError, "CONNECTION": ConnectionLost,
    "UNKNOWN_OUTCOME": UnknownOutcome, "LOCKED": Locked, "REFUSED": Refused,
    "NOT_FOUND": NotFound, "LEASE_LOST": LostLease,
}
