"""docs/contract.md as tests. Every store must pass all of it; a dialect at least `test_core`."""
