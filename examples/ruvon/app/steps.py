# SPDX-License-Identifier: Apache-2.0
"""What an order does, and how each step is taken back. Whoever runs a step calls these: a Celery
task, or the worker of recovery_after.py. They may be called again for the same order."""

import os
import time


def work(order, name, check):
    """Note the step in the file `effects`, and wait while the file hold.NAME exists. With eat.NAME
    it is the document's upload, which takes all memory."""
    with open("effects", "a") as effects:
        effects.write(f"{name} {order} {os.getpid()}\n")
    while os.path.exists(f"hold.{name}"):
        check()
        time.sleep(0.05)
    upload = []
    while os.path.exists(f"eat.{name}"):
        upload.append(bytearray(1 << 20))


def reserve(order, check):
    work(order, "Reserve_Inventory", check)
    return {"reservation": f"r-{order}"}


def release(order, check):
    work(order, "Reserve_Inventory.undo", check)


def charge(order, check):
    work(order, "Process_Payment", check)
    return {"payment": f"p-{order}"}


def refund(order, check):
    work(order, "Process_Payment.undo", check)


def ship(order, check):
    work(order, "Ship_Order", check)
    return {"shipped": True}


ALL = {"Reserve_Inventory": (reserve, release), "Process_Payment": (charge, refund),
       "Ship_Order": (ship, None)}
