# SPDX-License-Identifier: Apache-2.0
"""A series that leaks is called a leak, and one that only moves is not."""

import random

import pytest

from harness.growth import Bound, drift, rises

MB = 1 << 20
MEMORY = Bound(2 * MB, 0.05)
FEW = Bound(2)


def hour(value, every_s=10, seed=1):
    """value(seconds, noise) every ten seconds for an hour."""
    draw = random.Random(seed)
    return [(s, value(s, draw)) for s in range(0, 3600, every_s)]


LEAKS = {
    "memory, 3 MB a half hour": (MEMORY, lambda s, r: 20 * MB + s * 2000 + r.gauss(0, MB / 4)),
    "memory in steps": (MEMORY, lambda s, r: 20 * MB + s // 600 * 2 * MB),
    "a descriptor in five minutes": (FEW, lambda s, r: 12 + s // 300 + r.choice((0, 1, 2))),
    "only in the second half": (MEMORY, lambda s, r: 20 * MB + max(0, s - 1800) * 4000),
    "growth behind a saw": (MEMORY, lambda s, r: 20 * MB + s % 60 * 20000 + s * 4000),
    "recovery that takes longer": (Bound(0.5), lambda s, r: 0.3 + s / 3000 + r.random() / 5),
}

FLAT = {
    "the same": (FEW, lambda s, r: 12),
    "noise": (MEMORY, lambda s, r: 20 * MB + r.gauss(0, MB)),
    "a start that fills its caches": (MEMORY, lambda s, r: 20 * MB + min(s, 1500) * 20000),
    "a saw, as of retention": (MEMORY, lambda s, r: 20 * MB + s % 120 * 100000),
    "a peak at the end": (MEMORY, lambda s, r: 20 * MB + (40 * MB if s > 3500 else 0)),
    "slowly, within its bound": (MEMORY, lambda s, r: 20 * MB + s * 100),
    "falls": (MEMORY, lambda s, r: 90 * MB - s * 4000),
    "two connections come and go": (FEW, lambda s, r: 9 + r.choice((0, 0, 2))),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak(name):
    bound, value = LEAKS[name]
    for seed in range(5):
        said = drift(name, hour(value, seed=seed), bound)
        assert said.leaks, said


@pytest.mark.parametrize("name", FLAT)
def test_no_leak(name):
    bound, value = FLAT[name]
    for seed in range(5):
        said = drift(name, hour(value, seed=seed), bound)
        assert not said.leaks, said


def test_too_few_readings_say_nothing():
    assert drift("few", [(s, s * MB) for s in range(10)], MEMORY) is None
    assert drift("none", [], MEMORY) is None


def test_chance_does_not_rise():
    draw = random.Random(7)
    rose = sum(rises([draw.random() for _ in range(40)]) for _ in range(500))
    assert rose < 15  # 5 are expected


def test_a_day_is_read_as_an_hour_is():
    day = [(s, 20 * MB + s * 200) for s in range(0, 86400, 10)]
    assert drift("day", day, MEMORY).leaks
