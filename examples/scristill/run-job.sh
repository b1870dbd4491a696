#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One job: its row is on stdin, its type in DEFIB_KIND. It stands for Scristill's scrape, crawl and
# extract, and takes as long as its payload says.
set -eu
# SQLite has no type for JSON: there the payload is text.
seconds=$(jq -r '.payload | (fromjson? // .) | .seconds // 0.1')
printf '%s\tfor %s s\n' "$DEFIB_KIND" "$seconds" >&4
exec sleep "$seconds"
