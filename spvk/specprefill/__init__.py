"""The policy of sparse prefill: pure NumPy, no device, no model.

Settings (presets) -> structure of the prompt -> decide.before -> windows -> (the engine scores each) -> join
-> choose -> Selection -> decide.after -> report. `windows` and `Window` are imported from their module,
whose name the function shares; the decisions as `decide.before`, `decide.after` and `decide.failed`.
"""

from spvk.specprefill.adaptive import Evidence, keep_fraction, read_evidence
from spvk.specprefill.cost import Prediction, Rates, prefill_work, score_work
from spvk.specprefill.decide import Decision
from spvk.specprefill.heads import heads_for
from spvk.specprefill.importance import (
    boost,
    join,
    normalise,
    pool,
    reduce_rows,
    require_finite,
    require_finite_layers,
    rows_of_heads,
)
from spvk.specprefill.protect import Structure, read_structure, verify
from spvk.specprefill.rates import RateStore, fingerprint, settings_key
from spvk.specprefill.report import Timings, report_dict, status_of
from spvk.specprefill.selection import Selection, choose, keep_all, positions_of, select, spans_of
from spvk.specprefill.settings import Settings
from spvk.specprefill.tally import Tally

__all__ = [
    "Decision",
    "Evidence",
    "Prediction",
    "RateStore",
    "Rates",
    "Selection",
    "Settings",
    "Structure",
    "Tally",
    "Timings",
    "boost",
    "choose",
    "fingerprint",
    "heads_for",
    "join",
    "keep_all",
    "keep_fraction",
    "normalise",
    "pool",
    "positions_of",
    "prefill_work",
    "read_evidence",
    "read_structure",
    "reduce_rows",
    "report_dict",
    "require_finite",
    "require_finite_layers",
    "rows_of_heads",
    "score_work",
    "select",
    "settings_key",
    "spans_of",
    "status_of",
    "verify",
]
