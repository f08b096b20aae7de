-- Whether a job is test traffic, 0 or 1: its data has a key mockRequest (which may be spelt with \u escapes). Part of other statements.
(CASE WHEN instr(data, 'mockRequest') OR instr(data, '\u') THEN
    CASE WHEN json_valid(data) THEN json_type(data, '$.mockRequest') IS NOT NULL ELSE 0 END
ELSE 0 END)
