-- And they go.
DELETE FROM stat WHERE day = ?1 AND bucket >= 0
