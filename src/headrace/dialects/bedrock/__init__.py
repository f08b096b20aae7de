"""Bedrock::Jobs: a server of that protocol on an SQLite file, a client, and a store for headrace's own workers."""

from headrace.dialects.bedrock.calls import (
    BedrockError,
    DoesNotExist,
    IllegalAction,
    MalformedAttribute,
    SqlFailed,
    WaitTimeout,
)
from headrace.dialects.bedrock.client import AsyncClient, Client

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
