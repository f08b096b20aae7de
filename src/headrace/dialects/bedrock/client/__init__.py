"""A client of Bedrock::Jobs: each command described once, sent by threads or by an event loop."""
