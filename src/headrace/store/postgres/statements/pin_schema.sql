-- The end of what creates a schema: its functions look for names in it and in pg_catalog, and nowhere else. A role that can create
-- things in `public`, or in a schema of its own that is on a session's search path, could have its own run by others instead.
DO $$ DECLARE each regprocedure; BEGIN
    FOR each IN SELECT oid FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', each, current_schema());
    END LOOP;
END $$;
