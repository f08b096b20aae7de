-- How soon after its take a job that was handed out starts.
SELECT start_within FROM laned WHERE job = ?1
