-- The functions of `defib attach`, as src/watch/lease_sql.c makes them for one watch. Each part
-- begins with a line "-- @name"; {{piece}} stands for a text of the watch.

-- @noticed: the body of the trigger's function, which runs for each row. It compares what the row
-- showed before and shows now. The table is known by name, which survives a dump: the table itself,
-- or one that it is a partition of. Two IFs, because an expression with a query in it costs ten times
-- as much. What the writer must do, and whether it can be called: both may fail, neither writes.
#variable_conflict use_column
DECLARE
	defib_was text;
	defib_is text;
	defib_was_job text;
	defib_job text;
BEGIN
	IF TG_TABLE_SCHEMA <> {{schema}} OR TG_TABLE_NAME <> {{name}} THEN
		IF NOT EXISTS (
			SELECT 1 FROM pg_catalog.pg_partition_ancestors(TG_RELID) AS a
			JOIN pg_catalog.pg_class AS c ON c.oid = a.relid
			JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname = {{schema}} AND c.relname = {{name}})
		THEN
			RETURN NULL;
		END IF;
	END IF;
	BEGIN -- only reads: takes no transaction id
		IF TG_OP <> 'INSERT' THEN
			SELECT {{mark_and_job}} INTO defib_was, defib_was_job FROM (SELECT OLD.*) AS t;
		END IF;
		IF TG_OP <> 'DELETE' THEN
			SELECT {{mark_and_job}} INTO defib_is, defib_job FROM (SELECT NEW.*) AS t;
		END IF;
		IF defib_was IS NULL OR defib_is IS NOT NULL AND defib_job = defib_was_job THEN
			defib_was_job := NULL; -- nothing to forget
		END IF;
		IF defib_is IS NULL OR defib_was_job IS NULL AND defib_was IS NOT DISTINCT FROM defib_is THEN
			defib_job := NULL; -- no claim
		END IF;
		IF coalesce(defib_was_job, defib_job) IS NULL
			OR NOT pg_catalog.has_schema_privilege('defib', 'USAGE')
			OR NOT pg_catalog.has_function_privilege({{writer}}, 'EXECUTE')
		THEN
			RETURN NULL;
		END IF;
	EXCEPTION WHEN OTHERS THEN
		RAISE DEBUG 'defib: a claim was not written down: %', SQLERRM;
		RETURN NULL;
	END;
	PERFORM {{write}};
	RETURN NULL;
END;

-- @written: the body of the function that writes the claim of a job
DECLARE
	claims regclass;
BEGIN
	IF NOT has_schema_privilege('defib', 'USAGE') THEN
		RETURN;
	END IF;
	claims := to_regclass('defib.claimed_by');
	IF claims IS NULL
		OR NOT has_table_privilege(claims, 'SELECT')
		OR NOT has_table_privilege(claims, 'INSERT')
		OR NOT has_table_privilege(claims, 'UPDATE')
		OR NOT has_table_privilege(claims, 'DELETE')
	THEN
		RETURN;
	END IF;
	IF $1 IS NOT NULL THEN
		DELETE FROM defib.claimed_by AS c WHERE c.watch = {{watch}} AND c.job = $1;
	END IF;
	IF $2 IS NOT NULL THEN
		INSERT INTO defib.claimed_by AS c (watch, job, application, pid)
		VALUES ({{watch}}, $2, current_setting('application_name'), pg_backend_pid())
		ON CONFLICT (watch, job) DO UPDATE SET claim = DEFAULT, application = excluded.application, pid = excluded.pid, at = excluded.at;
	END IF;
END;
