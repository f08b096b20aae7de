-- Data that marks a job as test traffic.
SELECT json_set(?1, '$.mockRequest', json('true'))
