#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The outcome of a job whose run or step ended, as SQL.

The rules are the rows of AFTER_RULES in src/worker/workflow.h. `after_rules.py` writes them into
sql/postgres_queue.sql, between the lines "-- AFTER_RULES: NAME" and "-- end of AFTER_RULES"; the
build (embed.py) refuses a file that differs.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "src" / "worker" / "workflow.h"
JOB = ROOT / "src" / "worker" / "job.h"
SQL = ROOT / "sql" / "postgres_queue.sql"

BLOCK = re.compile(r"^( *)-- AFTER_RULES: (.*)\n(?:.*\n)*?\1-- end of AFTER_RULES\n", re.M)
NEVER = None
STEP_FACTS = {
    "UNDOING": "j.undoing",
    "MORE": "(ended->>'more')::boolean",
    "SAGA": "j.saga",
    "ANY_DONE": "EXISTS (SELECT 1 FROM defib.step s WHERE s.watch = 'queue'\n"
                "                    AND s.job = j.id::text AND s.state = 'done')",
}
JOB_FACTS = {"UNDOING": NEVER, "MORE": NEVER, "SAGA": NEVER, "ANY_DONE": NEVER}
NEXT_RUN = ("\n    clock_timestamp() + coalesce(g.delay_ms, defib.backoff_ms(j.attempts))\n"
            "        * interval '1 millisecond'")


def listed(path, name):
    """Rows of an X macro, each a list of its arguments."""
    text = re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*\n)", path.read_text()).group(1)
    return [[word.strip(' "') for word in row.split(",")] for row in re.findall(r"X\((.*?)\)", text)]


NAMES = dict(listed(JOB, "SETTLE_LIST"))
AFTER = dict(listed(HEADER, "STEP_AFTER_LIST"))
RULES = listed(HEADER, "AFTER_RULES")


def words(text):
    return [word.strip() for word in text.split("|") if word.strip() not in ("0", "ANY")]


def outcome_is(outcome, ids):
    # An outcome that is not known counts as `failed`.
    unknown = "FAILED" in ids
    names = [f"'{name}'" for i, name in NAMES.items() if (i in ids) != unknown]
    if len(names) == 1:
        return f"{outcome} = {names[0]}"
    among = f"{outcome} IN ({', '.join(names)})"
    return f"({among}) IS NOT TRUE" if unknown else among


def conditions(outcome, facts):
    """(condition, outcome of the job) of each row that can match; the last has no condition."""
    facts = {"CANCELLING": "j.state = 'cancelling'",
             "ATTEMPTS_LEFT": "j.attempts < j.max_attempts", **facts}
    left = set(NAMES)
    for ends, needs, lacks, after in RULES:
        ids = set(words(ends)) or set(NAMES)
        if not ids & left or any(facts[fact] is NEVER for fact in words(needs)):
            continue
        terms = [outcome_is(outcome, ids)] if ids != set(NAMES) else []
        terms += ["NOT " + facts[fact] for fact in words(lacks) if facts[fact] is not NEVER]
        terms += [facts[fact] for fact in words(needs)]
        if len(terms) == 1 and ids != set(NAMES):
            left -= ids
        yield "\n    AND ".join(terms), after


def case(rows):
    """The branches of a CASE: neighbours with the same result are joined."""
    out = []
    for when, then in rows:
        then = then if then.startswith("\n") else " " + then
        if out and out[-1][1] == then:
            out[-1][0].append(when)
        else:
            out.append(([when], then))
    lines = [f"WHEN {f'{chr(10)}  OR '.join(whens)} THEN{then}" for whens, then in out[:-1]]
    return "\n".join([*lines, f"ELSE{out[-1][1]}"]).split("\n")


def of_a_step():
    return case((when, f"'{AFTER[after]}'") for when, after in conditions("outcome", STEP_FACTS))


def of_a_job(say):
    return case((when, say(after)) for when, after in conditions("g.outcome", JOB_FACTS))


BLOCKS = {
    "of a step": of_a_step,
    "state of a job": lambda: of_a_job(
        lambda after: repr({"RELEASED": "queued", "RETRY": "scheduled"}.get(after, AFTER[after]))),
    "end of a job": lambda: of_a_job(
        lambda after: "NULL" if after in ("RELEASED", "RETRY") else "clock_timestamp()"),
    "next run of a job": lambda: of_a_job(
        lambda after: NEXT_RUN if after == "RETRY" else "j.run_at"),
}


def written(text):
    """The text with its blocks as the rules have them."""
    def block(match):
        indent, name = match.groups()
        lines = [f"-- AFTER_RULES: {name}", *BLOCKS[name](), "-- end of AFTER_RULES"]
        return "".join(f"{indent}{line}\n" for line in lines)
    return BLOCK.sub(block, text)


if __name__ == "__main__":
    SQL.write_text(written(SQL.read_text()))
