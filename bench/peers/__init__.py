"""headrace beside other job queues for Python, in one run. `make bench-peers`, or python -m bench.peers [--quick].

How it is built, from the inside out:

* `witness` is what all jobs do, the same in every queue: count, tell when they started, or tell that they ended.
* `adapters/<peer>.py` is all that is known about a peer: what to install, the tasks, how to enqueue and work.
* `host` runs in the peer's own interpreter, imports its adapter, and does what it is told by lines of JSON.
* `environments` and `servers` bring up what peers need; `peer` talks to a host and looks after worker processes.
* `measures` has the figures, `verdicts` the bars, `page` and `chart` write `docs/speed.md` and `docs/speed.svg`.

To add a peer, add one file to `adapters/` and its name to `adapters.NAMES`.
"""
