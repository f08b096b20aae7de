"""Bedrock::Jobs: a server of that protocol on an SQLite file, a client, and a store for headrace's own workers."""

from headrace.dialects.bedrock.client.client import AsyncClient, Client
from headrace.dialects.bedrock.client.replies import (
    BedrockError,
    DoesNotExist,
    IllegalAction,
    MalformedAttribute,
    SqlFailed,
    WaitTimeout,
)

__all__ = [
    "AsyncClient",
    "BedrockError",
    "Client",
    "DoesNotExist",
    "IllegalAction",
    "MalformedAttribute",
    "SqlFailed",
    "WaitTimeout",
]
