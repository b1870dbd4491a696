#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ship it. A parcel that is on its way cannot be taken back, so it goes last and has no undo.
# An address that does not exist is no reason to try again: exit code 65.
set -eu
echo "run ship" >>orders.log
if grep -q '"address": *"nowhere"'; then
	echo "there is no such address" >&2
	exit 65
fi
printf '{"parcel": "P%s"}' "$DEFIB_JOB_ID" >&3
