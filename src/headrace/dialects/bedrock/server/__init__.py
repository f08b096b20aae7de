"""The Bedrock::Jobs server: a socket on one side, one SQLite file on the other."""
