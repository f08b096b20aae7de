-- The same data of a job that is not test traffic.
SELECT json_remove(?1, '$.mockRequest')
