#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One record: its row is on stdin. A sitemap becomes a page that waits for WF7, a page is only
# looked at. As in ScraperSky the work is done in a session of its own. Where none can be had,
# 69 says so: defib tries again instead of leaving the record behind.
set -eu
record=$(jq -r '.domain // .url' | sed "s/'/''/g")
case $1 in
sitemap) work="INSERT INTO pages (url) VALUES ('https://$record/')" ;;
page) work="SELECT length('$record')" ;;
esac
case $DATABASE_URL in
sqlite:*) sqlite3 -batch "${DATABASE_URL#sqlite:}" "$work" >&2 && exit 0 || code=$? no_session=5 ;;
*) psql -Xqd "$DATABASE_URL" -c "$work" -o /dev/null && exit 0 || code=$? no_session=2 ;;
esac
[ "$code" -ne "$no_session" ] || exit 69
exit 1
