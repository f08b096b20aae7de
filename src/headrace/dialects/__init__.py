"""Stores in other programs' formats: headrace as a client, worker or server of queues that others run."""
