# SPDX-License-Identifier: Apache-2.0
"""The rooms of src/ from the lowest to the highest, and what each is linked into.

An include points to the same room or to one of a lower rank (rooms.py); rooms of one rank do not
see each other. The library is libdefib, the service is what the daemon adds, the program is the
command line (sources.py). A file outside the rooms (defib.c) is below all and part of the library.
"""

UNITS = {
    "library": [
        ["base"],
        ["store", "config"],
        ["watch"],
        ["guard"],
        ["ledger", "life"],
        ["recover"],
        ["worker"],
        ["lib"],
    ],
    "service": [
        ["insight"],
        ["setup"],
        ["alert"],
        ["view"],
        ["daemon"],
        ["http"],
    ],
    "program": [
        ["cli"],
    ],
}
RANKS = [rooms for ranks in UNITS.values() for rooms in ranks]
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}
UNIT = {room: unit for unit, ranks in UNITS.items() for rooms in ranks for room in rooms}
