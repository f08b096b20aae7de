"""Random histories: a store and the model live through the same accidents, and must agree after each step.

Producers, workers, admins and a sweeper take steps in an order that a `Chooser` decides, and so is everything
that goes wrong: replies get lost and requests are repeated, requests arrive late, workers crash, or freeze and come
back as zombies, the wall clock jumps. Every request goes to the store under test and to the model. Their answers
must be equal, so must be all that can be seen of them, and a few things must be true whatever the model says
(the invariants of `audit`, numbered as in the design). In the end nothing goes wrong any more, and every job must
come to an end and be purged without remains.

A `world` is one history. `producers`, `workers` (and their `requests`), `people`, `accidents` and `upkeep` have what
may happen in a step; `play` has their order, from the first step to the end. `choosing` decides, `audit` looks after
each step, `histories` plays many, shrinks and reports.
"""
