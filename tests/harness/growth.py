# SPDX-License-Identifier: Apache-2.0
"""Whether a figure that was read again and again grows.

Its slope is the median of the slopes between all pairs of readings (Theil and Sen), over the
second half of the time: a process that fills its caches at first, a peak or a fault that was just
injected does not move it. A figure drifts when the slope adds more to the second half than its
bound allows, and the readings really rise (Mann and Kendall: less than one in 100 by chance).
"""

import dataclasses
import itertools
import math
import statistics

SURE = 2.33  # standard deviations: one side, 1 %
LEAST = 8    # readings below which nothing is said


@dataclasses.dataclass
class Bound:
    """What the second half may add: so much, and so much of what it begins with.

    Less than all of that: what grows from nothing at the same rate has doubled by then.
    """
    absolute: float
    relative: float = 0.0

    def of(self, level):
        return self.absolute + self.relative * abs(level)


@dataclasses.dataclass
class Drift:
    name: str
    first: float   # median of the first quarter of the second half …
    last: float    # … and of the last
    most: float    # of all readings
    added: float   # by the slope, in the second half
    allowed: float
    rises: bool    # more than by chance
    readings: int  # in the second half

    @property
    def leaks(self):
        return self.rises and self.added > self.allowed


def second_half(series):
    """Of (seconds, value)."""
    if not series:
        return []
    begin = (series[0][0] + series[-1][0]) / 2
    return [one for one in series if one[0] >= begin]


def thinned(series, most=400):
    """All pairs of an hour's readings are few; those of a day are not."""
    step = max(1, math.ceil(len(series) / most))
    return series[::step]


def slope(series):
    """By the second, 0 where there is none."""
    slopes = [(y2 - y1) / (x2 - x1)
              for (x1, y1), (x2, y2) in itertools.combinations(series, 2) if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def rises(values):
    """Mann and Kendall, with the correction for readings that are the same."""
    n = len(values)
    score = sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))
    same = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in same)) / 18
    return variance > 0 and (score - 1) / math.sqrt(variance) > SURE


def drift(name, series, bound):
    """Of readings (seconds, value), in their order; None where they are too few."""
    half = thinned(second_half(series))
    if len(half) < LEAST:
        return None
    values = [value for _, value in half]
    quarter = max(1, len(values) // 4)
    first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
    added = slope(half) * (half[-1][0] - half[0][0])
    return Drift(name, first, last, max(value for _, value in series), added,
                 bound.of(first), rises(values), len(half))
