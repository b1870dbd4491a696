#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Takes reserve.sh back; its output is among the outputs on stdin.
set -eu
reservation=$(sed 's/.*"reservation": *"\([^"]*\)".*/\1/')
echo "undo reserve $reservation" >>orders.log
