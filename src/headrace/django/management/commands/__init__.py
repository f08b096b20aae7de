"""`manage.py headrace`."""
