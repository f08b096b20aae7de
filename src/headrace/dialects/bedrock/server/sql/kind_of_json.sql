-- What kind of JSON is this text? NULL when it is none.
SELECT CASE WHEN json_valid(?1) THEN json_type(?1) END
