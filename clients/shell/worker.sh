#!/bin/sh
# worker.sh URL QUEUE COMMAND…: a worker over defib's SQL functions (docs/clients.md), with
# nothing but psql. The payload is the command's stdin, its stdout the result; exit 0 is
# done, 65 never again, 75 try later, anything else an error. DRAIN=1: end when the queue
# is empty. `defib work` does the same and more; this shows how little a client needs.
set -eu
url=$1 queue=$2
shift 2
lease_ms=${LEASE_MS:-15000}
name=$(hostname)-$queue
folder=$(mktemp -d)
worker='' job='' epoch=''

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

leave() {
	# A job that is still in hand goes back, with its attempt.
	[ -z "$job" ] || settle released >/dev/null || true
	[ -z "${life:-}" ] || kill "$life" 2>/dev/null || true
	[ -z "$worker" ] || echo "SELECT defib.leave(:worker)" | sql -v worker="$worker" >/dev/null || true
	rm -rf "$folder"
}
trap leave EXIT
trap 'exit 143' TERM INT

# Renew three times a lease; when that is refused, what is in hand is no longer ours.
keep_alive() {
	pause=$(echo "$lease_ms" | awk '{ print $1 / 3000 }') nap=''
	trap - EXIT
	trap 'kill $nap; exit' TERM
	while sleep "$pause" & nap=$! && wait "$nap"; do
		echo "SELECT defib.renew(:worker, 1)" | sql -v worker="$worker" >/dev/null || break
	done
	kill -TERM $$
}

claim() {
	sql -v worker="$worker" -v queue="$queue" >"$folder/claim" <<-'SQL' || exit 1
		SELECT defib.promote(1000) \g /dev/null
		SELECT id || ' ' || epoch || ' ' || kind || E'\n' || coalesce(payload::text, '')
		FROM defib.claim(:worker, :'queue', 1);
	SQL
	job='' epoch=''
	read -r job epoch DEFIB_KIND <"$folder/claim" || return 1
	export DEFIB_JOB_ID="$job" DEFIB_EPOCH="$epoch" DEFIB_KIND DEFIB_QUEUE="$queue"
}

run_job() {
	code=0
	tail -n +2 "$folder/claim" >"$folder/payload"
	"$@" <"$folder/payload" >"$folder/result" 2>"$folder/error" || code=$?
	case $code in
	0) outcome=done ;;
	65) outcome=permanent ;;
	75) outcome=retry ;;
	*) outcome=failed ;;
	esac
	error=''
	[ "$code" = 0 ] || error="exit code $code: $(tail -n 1 "$folder/error")"
	accepted=$(settle "$outcome" "$error" "$(cat "$folder/result")")
	[ "$accepted" = t ] || echo "LEASE_LOST: job $job is no longer ours" >&2
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
