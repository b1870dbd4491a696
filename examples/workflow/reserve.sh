#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Reserve the goods. The output is what later steps, and unreserve.sh, get to know of it.
set -eu
echo "run reserve" >>orders.log
printf '{"reservation": "R%s"}' "$DEFIB_JOB_ID" >&3
