-- JSON without blanks; an empty object for what is no JSON.
SELECT CASE WHEN json_valid(?1) THEN json(?1) ELSE '{}' END
