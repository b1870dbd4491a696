# SPDX-License-Identifier: Apache-2.0
"""What the owner of a table, a role "owner" with the schema app, hides in it to gain rights."""

# The owner's code, as far as a role can hide it in a table: functions that the planner folds, and
# those that a trigger defers to the end of the transaction. All of it tries to leave the role in
# which it runs. A rollback does not undo what it draws from a sequence.
OWNERS_CODE = """
SET search_path = app;
CREATE TABLE seen (who text); GRANT ALL ON seen TO PUBLIC;
CREATE SEQUENCE escapes;
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE INDEX ON jobs ((id + f(1)));
CREATE TABLE parts (LIKE jobs) PARTITION BY RANGE ((id + f(1)));
CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (99);
CREATE TABLE later (n int);
CREATE FUNCTION at_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO app.seen VALUES (current_user); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION at_end();
CREATE FUNCTION leave() RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN
    INSERT INTO app.later VALUES (1);
    BEGIN RESET ROLE; EXCEPTION WHEN OTHERS THEN END;
    BEGIN SET SESSION AUTHORIZATION DEFAULT; EXCEPTION WHEN OTHERS THEN END;
    INSERT INTO app.seen VALUES (current_user);
    IF current_user <> 'owner' THEN PERFORM nextval('app.escapes'); END IF;
    RETURN 1;
EXCEPTION WHEN OTHERS THEN RETURN 1; END $$;
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN RETURN app.leave(); END'
"""


def escaped(pg):
    return pg.sql("SELECT who FROM app.seen WHERE who <> 'owner'") != [] or \
        pg.sql("SELECT is_called FROM app.escapes") != [(False,)]
