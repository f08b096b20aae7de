"""The server's statements, by name, and the two pieces of SQL that many of them share."""

from headrace.store import statements

ROW = """CAST(created AS BLOB), jobID, CAST(state AS BLOB), CAST(name AS BLOB), CAST(nextRun AS BLOB),
    CAST(lastRun AS BLOB), CAST(repeat AS BLOB), CAST(data AS BLOB), CAST(priority AS INTEGER),
    CAST(parentJobID AS INTEGER), CAST(retryAfter AS BLOB), CAST(sequentialKey AS BLOB)"""
"""All columns in their order, as bytes and whole numbers: a value that is neither must not hide a job."""
MOCKED = r"""(CASE WHEN instr(data, 'mockRequest') OR instr(data, '\u') THEN
    CASE WHEN json_valid(data) THEN json_type(data, '$.mockRequest') IS NOT NULL ELSE 0 END
ELSE 0 END)"""
"""Whether a job is test traffic, 0 or 1: its data has a key mockRequest, which may be spelt with escapes."""

SQL = statements.load("headrace.dialects.bedrock.server", "statements", {"ROW": ROW, "MOCKED": MOCKED})
