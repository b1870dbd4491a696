#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Reads one document. It stands for the download of the PDF and the model that reads it: its row is
# a JSON document on standard input, and what it writes to descriptor 3 becomes both contents.
# An exit code other than 0 is a failure: the document goes back with the last line on standard
# error, until it has no attempts left.
set -eu
echo "{\"text\": \"text of $DEFIB_JOB_ID\", \"boosted\": \"better text of $DEFIB_JOB_ID\"}" >&3
