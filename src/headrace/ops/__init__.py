"""What operators look at and act on, as typed records and functions: the command line only parses and prints."""
