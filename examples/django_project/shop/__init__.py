"""A shop on Django: orders, and a job for each that confirms it."""
