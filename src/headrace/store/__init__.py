"""Where jobs live. `contract` says what a store must do; `open_store` turns a URL into one."""

from headrace.store.contract import Facet, Operation, Store, Waiter
from headrace.store.urls import open_store

__all__ = ["Facet", "Operation", "Store", "Waiter", "open_store"]
