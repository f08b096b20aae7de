"""docs/contract.md as plain Python: a store of dicts, one lock and no cleverness.

It is the reference that random histories compare every other store with, and a store under test itself.
The page's sections are rooms here, each a part of the model in a file of its own; `core` has what they share, and
`records` what they remember. A method `_name` does what the operation `name` describes; read them next to the page.
"""

from __future__ import annotations

from headrace.store.contract import CORE_FACETS, Durability, Facet

from .admission import Admission
from .blocks import Blocks
from .edit import Editing
from .ending import Ending
from .events import Events
from .find import Looking
from .lanes import Lanes
from .outcomes import Outcomes
from .put import Putting
from .queues import Queues
from .relations import Relations
from .schedules import Schedules
from .sessions import Sessions
from .settings import Settings
from .settle import Exchange
from .stats import Statistics
from .sweep import Sweeping
from .tags import Tags
from .take import Handing


class Model(
    Putting, Looking, Ending,
    Sessions, Exchange, Handing, Outcomes, Sweeping,
    Admission, Relations, Lanes, Queues, Blocks, Editing,
    Schedules, Tags, Statistics, Settings, Events,
):  # fmt: skip
    """The contract."""

    url = "model:"
    facets = CORE_FACETS | {
        Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS, Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT,
        Facet.OUTSIDE, Facet.WHY, Facet.EVENTS, Facet.SCHEDULES, Facet.THROUGHPUT, Facet.AGES, Facet.BLOCKS,
    }  # fmt: skip
    durability = Durability.NONE
    leases_in_jobs = False
