# A thin front: meson and ninja build, scripts/ does the rest.
PREFIX ?= /usr/local
export PREFIX
# What long runs show is kept for docs/tested.md, as `make proof` does: scripts/project/tested.
RECORD = DEFIB_PROOF_RESULTS=$${DEFIB_PROOF_RESULTS:-$(CURDIR)/build/proof-results}

all:
	@scripts/setup build
	@scripts/build build gcc

# Two commands for a newcomer: see it work, see it proved.
demo: all
	@build/defib demo

check:
	@scripts/setup test
	@scripts/check </dev/null

# After an edit: every unit test, or one program or file: make test T=judge,
# make test T=test_undo, make test T="judge test_undo".
unit:
	@scripts/setup test
	@scripts/check unit </dev/null

test:
	@scripts/setup test
	@scripts/check test $(T) </dev/null

lint:
	@scripts/setup test
	@scripts/build build gcc-tests --quiet
	@scripts/lint

format:
	@scripts/setup test
	@find src include tests/sim tests/fuzz -name '*.[ch]' -exec clang-format -i {} +

# What takes long: the thread sanitizer, large races, seeds, kills, failovers. A part alone:
# make proof P=simulator; make proof P=? names the parts.
proof:
	@scripts/setup proof
	@scripts/proof $(P) </dev/null

# Fuzzing of untrusted inputs: one minute per target, or only some: make fuzz F=uri.
fuzz:
	@scripts/setup test
	@scripts/fuzz $(F) </dev/null

# Removes each guard once: a test must fail.
mutants:
	@scripts/setup test
	@scripts/mutants $(M) </dev/null

# Draws random mutants and shows those that no test notices: make mutate SEED=7 COUNT=40, of some
# rooms only with ROOM="guard recover", by unit tests only with TESTS=unit.
mutate:
	@scripts/setup test
	@scripts/mutate --seed $(or $(SEED),1) --count $(or $(COUNT),40) $(if $(ROOM),--room "$(ROOM)") \
		$(if $(TESTS),--tests $(TESTS)) --json build/mutate.json </dev/null

# Searches the protocol of one job exhaustively, and with each of its rules removed once.
model:
	@scripts/setup test
	@scripts/model $(M) </dev/null

# Everything at work for long, with faults: does anything grow? make soak MINUTES=600.
soak: all
	@scripts/setup test
	@$(RECORD) scripts/soak $(MINUTES) </dev/null

# All tests on each version of PostgreSQL, and on a new SQLite; some: make matrix V="13 18".
matrix:
	@scripts/setup test
	@$(RECORD) scripts/matrix $(V) </dev/null

# How much of the source the tests run.
coverage:
	@scripts/setup test
	@$(RECORD) scripts/coverage </dev/null

bench: all
	@scripts/setup test
	@bench/run

# The documentation as static HTML with search, in build/docs.
docs:
	@scripts/setup docs
	@scripts/docs

# README's pictures, from a real run of the demo (docs/pictures).
pictures: all
	@scripts/setup pictures
	@scripts/pictures

# Every view of the page, wide and narrow, light and dark, in build/screenshots.
screenshots: all
	@scripts/setup test
	@/usr/bin/python3 -m pytest -q -p no:cacheprovider -m proof tests/e2e/page/test_looks.py

# The Python package, as a wheel in build/python.
python:
	@scripts/setup test
	@scripts/wheel build/python

install: all
	@/usr/bin/meson install -C build --no-rebuild

clean:
	@rm -rf build build-*

.PHONY: all demo check unit test lint format proof fuzz mutants mutate model soak matrix coverage bench docs pictures screenshots python install clean
