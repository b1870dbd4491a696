# SPDX-License-Identifier: Apache-2.0
"""What schemathesis must know besides docs/openapi.yaml: which jobs, watches and workers there are,
and who calls. It imports this file in its own process: SCHEMATHESIS_HOOKS.

DEFIB_CALLER is the caller's role. DEFIB_KNOWN is {parameter: [values]} in JSON; a drawn value that
is valid is replaced by one of them three times out of four, so that calls reach what they are about.
"""

import json
import os
import zlib

import schemathesis

CALLER = os.environ["DEFIB_CALLER"]
KNOWN = json.loads(os.environ["DEFIB_KNOWN"])
ROLES = ("none", "viewer", "operator", "admin")
# The address itself is wrong, or there is no such method: told before the role is looked at.
BEFORE_ROLES = (400, 404, 405, 413, 414)
PARTS = {"path": "path_parameters", "query": "query", "header": "headers"}


def replaced(name, value):
    """The same for the same value: a run can be repeated."""
    draw = zlib.crc32(repr((name, value)).encode())
    known = KNOWN.get(name)
    return known[draw // 4 % len(known)] if known and draw % 4 else value


def known_name(case, name):
    """Two kinds of things are called {id}."""
    if name == "id":
        return "background" if "/acts/" in case.path else "worker"
    return name


def as_the_worker(case):
    """A worker's own secret and its own jobs, so that what it says is accepted."""
    worker = (case.path_parameters or {}).get("id")
    if "/workers/" not in case.path or worker not in KNOWN["worker"]:
        return
    at = KNOWN["worker"].index(worker)
    if case.headers is not None:
        case.headers["Defib-Worker-Secret"] = KNOWN["secret"][at]
    valid = isinstance(case.body, dict) and case.meta.generation.mode.is_positive
    if valid and case.path.endswith(("/settle", "/progress")):
        claim = KNOWN["claims"][at][zlib.crc32(repr(case.body).encode()) % len(KNOWN["claims"][at])]
        for one in (case.body, *case.body.get("results", ())):
            if "key" in one:
                one.update(key=claim["key"], epoch=claim["epoch"])
        case.body.pop("queue", None)
        case.body.pop("watch", None)
        case.body.update({"watch": claim["watch"]} if "watch" in claim else {})


def is_valid(case, location):
    return any(place.value == location and info.mode.is_positive
               for place, info in case.meta.components.items())


@schemathesis.hook
def before_call(_context, case, _kwargs):
    for location, part in PARTS.items():
        values = getattr(case, part)
        if not values or not is_valid(case, location):
            continue
        for name in values:
            values[name] = replaced(known_name(case, name), values[name])
        if location == "path" and "key" in values:
            pair = replaced("job", [values["watch"], values["key"]])
            values["watch"], values["key"] = pair
    if isinstance(case.body, dict) and case.meta.generation.mode.is_positive:
        for name in case.body:
            case.body[name] = replaced(name, case.body[name])
    as_the_worker(case)


@schemathesis.check
def role_decides(_context, response, case):
    """A caller below the operation's role gets 401 or 403 and nothing else; others never 401.
    schemathesis also sends calls without the token."""
    if case.method.upper() != case.operation.method.upper():
        return
    caller = CALLER if "Authorization" in response.request.headers else "none"
    needed = case.operation.definition.raw["x-role"]
    if ROLES.index(caller) < ROLES.index(needed):
        allowed = (401 if caller == "none" else 403, *BEFORE_ROLES)
        assert response.status_code in allowed, (
            f"{caller} got {response.status_code}; {needed} is required")
    else:
        assert response.status_code != 401, f"{caller} got 401"
