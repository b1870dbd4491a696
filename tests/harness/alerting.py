# SPDX-License-Identifier: Apache-2.0
"""Configurations with alerts, and their receivers."""



from harness import stuck_jobs

def webhook(name, receiver, **more):
    given = "".join(f", {k}: {v}" for k, v in more.items())
    return f"  - {{name: {name}, type: webhook, url: \"{receiver.url}\"{given}}}\n"


def config(db, sinks, to, rules="", ask="300ms", **watch):
    text = stuck_jobs.config(db, **{"every": "1s", **watch})
    return (text + f"sinks:\n{sinks}alerts:\n  every: {ask}\n  sinks: [{to}]\n"
            + (f"  rules:\n{rules}" if rules else ""))
