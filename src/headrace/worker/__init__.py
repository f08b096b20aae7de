"""Workers: processes that take leases, run tasks and settle."""
