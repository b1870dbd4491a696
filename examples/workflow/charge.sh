#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Charge the card, under a key that is the same in every attempt: a step may be run more than
# once, and a card is charged once only if the bank can tell.
set -eu
reservation=$(sed 's/.*"reservation": *"\([^"]*\)".*/\1/')
echo "run charge $reservation" >>orders.log
printf '{"charge": "C%s", "for": "%s"}' "$DEFIB_JOB_ID" "$reservation" >&3
