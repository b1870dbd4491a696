# SPDX-License-Identifier: Apache-2.0
"""Functions beside those of defib, in its own schema, that would fit a careless call better."""

ESCAPES = "CREATE SEQUENCE public.escapes; GRANT ALL ON SEQUENCE public.escapes TO PUBLIC"
# Types that a literal or parameter without a type, or with another one, is taken for.
OTHERS = {"bigint": "text", "integer": "text", "jsonb": "text", "boolean": "text",
          "text": "character varying", "timestamp with time zone": "text"}
FUNCTIONS = """
SELECT p.proname, p.pronargdefaults,
       ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) AS t), p.prorettype = 2279
FROM pg_proc p WHERE p.pronamespace = 'defib'::regnamespace
"""


def signatures(types, defaults):
    """With fewer parameters, where ours have defaults; and with other types for each of them."""
    for n in range(len(types) - defaults, len(types)):
        yield types[:n]
    for place, one in enumerate(types):
        if one in OTHERS:
            yield types[:place] + [OTHERS[one]] + types[place + 1:]
    yield [OTHERS.get(one, one) for one in types]


def plant(pg, session):
    """As the role of this session, which may create in the schema. Returns how many there are."""
    pg.sql(ESCAPES)
    existing = {(name, tuple(types)) for name, _, types, _ in pg.sql(FUNCTIONS)}
    made = set()
    for name, defaults, types, is_trigger in pg.sql(FUNCTIONS):
        for given in [] if is_trigger else signatures(types, defaults):
            if (name, tuple(given)) not in existing | made:
                made.add((name, tuple(given)))
                with session.cursor() as cursor:
                    cursor.execute(
                        f"CREATE FUNCTION defib.{name}({', '.join(given)}) RETURNS void LANGUAGE "
                        "plpgsql AS $$ BEGIN PERFORM nextval('public.escapes'); END $$")
    return len(made)


def called(pg):
    return pg.sql("SELECT is_called FROM public.escapes") != [(False,)]
