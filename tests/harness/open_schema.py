# SPDX-License-Identifier: Apache-2.0
"""A database where every role can create in public, as it was by default before PostgreSQL 15, and
what a role that can only connect makes of it.
"""

import psycopg2

# For exactly the types of a watch's expressions: PostgreSQL prefers these to its own, which take
# text, wherever the schema is searched.
PLANTED = """
CREATE FUNCTION {schema}.noted(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    BEGIN INSERT INTO public.seen VALUES (current_user); EXCEPTION WHEN OTHERS THEN END;
    RETURN $1::text = $2::text; END $$;
CREATE OPERATOR {schema}.= (leftarg = varchar, rightarg = varchar, function = {schema}.noted);
CREATE FUNCTION {schema}.lower(varchar) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    BEGIN INSERT INTO public.seen VALUES (current_user); EXCEPTION WHEN OTHERS THEN END;
    RETURN pg_catalog.lower($1::text); END $$
"""
WATCH = """
databases: [{{name: main, url: "{url}"}}]
watches:
  - name: jobs
    table: {table}
    key: id
    running: {running}
    alive_at: updated_at
    stuck_after: 1h
    requeue: status = 'queued', updated_at = :now
    attempts: '0'
    max_attempts: 3
"""


class OpenSchema:
    """A table in public and a role of defib's that may use it; `eve` can only connect."""

    def __init__(self, pg):
        self.pg = pg
        self.role, self.eve = f"dfb_{pg.name}", f"eve_{pg.name}"
        pg.sql(f"CREATE ROLE {self.role} LOGIN; CREATE ROLE {self.eve} LOGIN; "
               f"GRANT CREATE ON DATABASE {pg.name} TO {self.role}, {self.eve}; "
               "GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC; "
               "CREATE TABLE seen (who text); GRANT INSERT ON seen TO PUBLIC")
        self.url = pg.server.url(pg.name, self.role)

    def table(self, type="varchar(20)", name="jobs"):
        self.pg.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, status {type}, updated_at "
                    f"timestamptz); INSERT INTO {name} VALUES (1, 'running', now() - "
                    f"interval '1 day'); GRANT SELECT, UPDATE ON {name} TO {self.role}")

    def as_eve(self, sql):
        session = psycopg2.connect(self.pg.server.url(self.pg.name, self.eve))
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(sql)
        session.close()

    def plant(self, schema="public"):
        self.as_eve(PLANTED.format(schema=schema))

    def config(self, table="jobs", running="lower(status) = 'running'::varchar", url=None):
        return WATCH.format(url=url or self.url, table=table, running=running)

    def state(self, table="jobs"):
        return self.pg.sql(f"SELECT status FROM {table} WHERE id = 1")[0][0]

    def seen(self):
        """The roles with whose rights the planted code ran."""
        return [row[0] for row in self.pg.sql("SELECT DISTINCT who FROM seen")]

    def drop(self):
        self.pg.hang_up()
        for role in (self.role, self.eve):
            self.pg.sql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
