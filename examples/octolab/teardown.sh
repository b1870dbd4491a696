#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tears one lab down; DEFIB_JOB_ID says which, its row is a JSON document on standard input.
# It stands for `docker compose -p "lab-$DEFIB_JOB_ID" down --volumes`, and may be run more than
# once: a worker that was stopped in the middle leaves the lab to the next one.
# 0: finished. 75: not now, try again later. Else: failed, with the last it said on standard error.
set -eu
echo "lab $DEFIB_JOB_ID is torn down"
