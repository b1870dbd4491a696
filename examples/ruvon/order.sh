#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One step of an order, or its undo: DEFIB_STEP says which. On standard input it finds a JSON
# document with the row as "payload" and what earlier steps gave as "outputs"; what it writes to
# descriptor 3 is its own output. A step may be run more than once: the workflow's id, as the
# key of what it calls, is the same in every attempt.
set -eu
case "$DEFIB_STEP${DEFIB_UNDO:+ undo}" in
Reserve_Inventory) echo "{\"reservation\": \"r-$DEFIB_JOB_ID\"}" >&3 ;;
"Reserve_Inventory undo") echo "give reservation r-$DEFIB_JOB_ID back" ;;
Process_Payment) echo "{\"payment\": \"p-$DEFIB_JOB_ID\"}" >&3 ;;
"Process_Payment undo") echo "pay p-$DEFIB_JOB_ID back" ;;
Ship_Order) echo '{"shipped": true}' >&3 ;;
*) echo "no such step: $DEFIB_STEP" >&2 && exit 1 ;;
esac
