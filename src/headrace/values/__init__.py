"""Values and their texts: encoding, names, durations, ids, the clock. Knows nothing of jobs, stores or apps."""
