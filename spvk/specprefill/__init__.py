"""The policy of sparse prefill, version 3.1: pure NumPy, no device, no model.

Settings -> windows -> (the engine scores each) -> join -> choose -> Selection -> report.
`windows` and `Window` are imported from their module, whose name the function shares.
"""

from spvk.specprefill.importance import (
    boost,
    join,
    normalise,
    reduce_rows,
    require_finite,
    require_finite_layers,
)
from spvk.specprefill.report import Timings, report_dict, status_of
from spvk.specprefill.selection import Selection, choose, keep_all, positions_of, select, spans_of
from spvk.specprefill.settings import Settings

__all__ = [
    "Selection",
    "Settings",
    "Timings",
    "boost",
    "choose",
    "join",
    "keep_all",
    "normalise",
    "positions_of",
    "reduce_rows",
    "report_dict",
    "require_finite",
    "require_finite_layers",
    "select",
    "spans_of",
    "status_of",
]
