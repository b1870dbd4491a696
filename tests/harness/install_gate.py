# SPDX-License-Identifier: Apache-2.0
"""A gate in a table: a write waits there until the test opens it."""


# A look that pauses in the middle, so that a test can act meanwhile.
GATE = """
CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(78);
    LOOP
        EXIT WHEN pg_try_advisory_xact_lock_shared(77);
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN true;
END $$"""
