"""The Redis store against real servers, which the tests start themselves. See `servers`."""
