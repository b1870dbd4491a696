#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# worker.sh URL QUEUE COMMAND…: a worker over defib's SQL functions (docs/clients.md), with
# nothing but psql. The payload is the command's stdin, its stdout the result; exit 0 is
# done, 65 never again, 75 try later, anything else an error. The last line on its stderr is
# told as its progress; it is ended when the job was taken from us, or asked to stop. DRAIN=1:
# end when the queue is empty. `defib work` does the same and more; this shows how little a
# client needs.
set -eu
url=$1 queue=$2
shift 2
lease_ms=${LEASE_MS:-15000}
name=$(hostname)-$queue
folder=$(mktemp -d)
worker='' job='' epoch='' child=''
pause=$(echo "$lease_ms" | awk '{ print $1 / 3000 }')

# Statements come on stdin, values as variables: psql quotes them as :'name'.
sql() {
	psql -XAtq -v ON_ERROR_STOP=1 "$@" "$url"
}

settle() {
	sql -v worker="$worker" -v job="$job" -v epoch="$epoch" -v outcome="$1" -v error="${2-}" \
		-v result="${3-}" <<-'SQL'
		SELECT accepted FROM defib.settle(:worker, ARRAY[:job]::bigint[], ARRAY[:epoch]::bigint[],
			ARRAY[:'outcome'], ARRAY[to_jsonb(nullif(:'result', ''))], ARRAY[nullif(:'error', '')]);
	SQL
}

# Tell of the job: is it still ours, did somebody ask it to stop? "true false" is a good answer.
beat() {
	sql -v worker="$worker" -v job="$job" -v epoch="$epoch" -v progress="$1" <<-'SQL'
		SELECT accepted::text || ' ' || cancelling::text
		FROM defib.beat(:worker, ARRAY[:job]::bigint[], ARRAY[:epoch]::bigint[],
			ARRAY[NULL]::text[], ARRAY[nullif(:'progress', '')]);
	SQL
}

leave() {
	# A job that is still in hand goes back, with its attempt.
	[ -z "$child" ] || kill "$child" 2>/dev/null || true
	[ -z "$job" ] || settle released >/dev/null || true
	[ -z "${life:-}" ] || kill "$life" 2>/dev/null || true
	[ -z "$worker" ] || echo "SELECT defib.leave(:worker)" | sql -v worker="$worker" >/dev/null || true
	rm -rf "$folder"
}
trap leave EXIT
trap 'exit 143' TERM INT

# Renew three times a lease; when that is refused, what is in hand no longer belongs to this worker.
keep_alive() {
	nap=''
	trap - EXIT
	trap 'kill $nap; exit' TERM
	while sleep "$pause" & nap=$! && wait "$nap"; do
		echo "SELECT defib.renew(:worker, 1)" | sql -v worker="$worker" >/dev/null || break
	done
	kill -TERM $$
}

# Beside a job: end its command, and leave word why, when it must not go on.
keep_beating() {
	nap=''
	trap - EXIT
	trap 'kill $nap; exit' TERM
	while sleep "${BEAT_S:-$pause}" & nap=$! && wait "$nap"; do
		[ ! -e "$folder/over" ] || exit 0
		case $(beat "$(tail -n 1 "$folder/error")") in
		'true false') continue ;;
		'true true') : >"$folder/stopped" ;;
		*) : >"$folder/lost" ;;
		esac
		break
	done
	kill -TERM "$1"
}

claim() {
	sql -v worker="$worker" -v queue="$queue" >"$folder/claim" <<-'SQL' || exit 1
		SELECT defib.promote(1000) \g /dev/null
		SELECT id || ' ' || epoch || ' ' || kind || E'\n' || coalesce(payload::text, '')
		FROM defib.claim(:worker, :'queue', 1);
	SQL
	job='' epoch=''
	read -r job epoch DEFIB_KIND <"$folder/claim" || return 1
}

run_job() {
	code=0
	tail -n +2 "$folder/claim" >"$folder/payload"
	rm -f "$folder/lost" "$folder/stopped" "$folder/over"
	# A clean environment: what reaches the database (PGPASSWORD and its like) is ours alone.
	env -i PATH="$PATH" HOME="${HOME:-/}" ${LANG:+"LANG=$LANG"} ${TZ:+"TZ=$TZ"} \
		DEFIB_JOB_ID="$job" DEFIB_EPOCH="$epoch" DEFIB_KIND="$DEFIB_KIND" DEFIB_QUEUE="$queue" \
		"$@" <"$folder/payload" >"$folder/result" 2>"$folder/error" &
	child=$!
	keep_beating "$child" &
	beats=$!
	wait "$child" || code=$?
	child=''
	# A signal that comes while a subshell is being made may be lost: the file is not.
	: >"$folder/over"
	kill "$beats" 2>/dev/null || true
	wait "$beats" 2>/dev/null || true
	[ ! -e "$folder/stopped" ] || code=stopped
	case $code in
	0) outcome="done" ;;
	stopped) outcome=stopped ;;
	65) outcome=permanent ;;
	75) outcome=retry ;;
	*) outcome=failed ;;
	esac
	error=''
	case $code in 0 | stopped) ;; *) error="exit code $code: $(tail -n 1 "$folder/error")" ;; esac
	accepted=f
	[ -e "$folder/lost" ] || accepted=$(settle "$outcome" "$error" "$(cat "$folder/result")")
	[ "$accepted" = t ] || echo "LEASE_LOST: job $job no longer belongs to this worker" >&2
	job=''
}

worker=$(echo "SELECT defib.register(:'name', :'incarnation', :lease_ms)" |
	sql -v name="$name" -v lease_ms="$lease_ms" \
		-v incarnation="shell/$name/$$/$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')")
keep_alive &
life=$!
while :; do
	if claim; then
		run_job "$@"
	elif [ "${DRAIN:-}" ]; then
		exit 0
	else
		sleep 1
	fi
done
