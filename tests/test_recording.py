"""Recordings without a device: hazards, cutting, text."""

from dataclasses import replace

import pytest

from spvk import recording
from spvk.recording import Buffer, Dispatch, barriers, cut, describe


def rms(x, y, weight=Buffer("w", 64), step=Buffer("step", 16), groups=(1, 1, 1), flops=0):
    return Dispatch(
        "rms_norm", groups, dict(x=x, weight=weight, y=y, step_params=step, n=16, eps=1e-6), flops=flops
    )


def test_barrier_after_write_then_read_and_none_between_independent_dispatches():
    a, b, c, d = (Buffer(n, 64) for n in "abcd")
    assert barriers([rms(a, b), rms(a, c), rms(b, d), rms(c, a)]) == [False, False, True, False]


def test_write_after_read_and_write_after_write_need_a_barrier():
    a, b, c = (Buffer(n, 64) for n in "abc")
    assert barriers([rms(a, b), rms(c, a)]) == [False, True]
    assert barriers([rms(a, b), rms(c, b)]) == [False, True]


def test_ranges_of_one_buffer_conflict_only_where_they_overlap():
    root = Buffer("root", 1024)
    low, high, middle = root.range(0, 512), root.range(512, 512), root.range(256, 512)
    other = Buffer("other", 1024)
    assert barriers([rms(other, low), rms(other, high)]) == [False, False]
    assert barriers([rms(other, low), rms(other, middle)]) == [False, True]
    assert barriers([rms(other, low), rms(high.range(0, 64), other.range(0, 64))])[1] is True


def test_range_outside_the_buffer_is_refused():
    with pytest.raises(ValueError, match=r"root: range \[1000, 1100\) of 1024 bytes"):
        Buffer("root", 1024).range(1000, 100)


def test_cut_bounds_every_submission_and_covers_every_workgroup_once():
    a, b = Buffer("a", 64), Buffer("b", 64)
    jobs = [
        rms(a, b, groups=(10, 1, 1), flops=100),
        rms(b, a, groups=(3, 1, 1), flops=1000),
        rms(a, b, groups=(1, 1, 1), flops=5000),
    ]
    pieces = cut(jobs, 250)
    assert all(cost <= 450 for parts, cost in pieces if len(parts) > 1 or parts[0][0] is not jobs[2])
    for job in jobs:
        spans = [(first, count) for parts, _ in pieces for d, first, count in parts if d is job]
        assert [f for f, _ in spans] == [sum(c for _, c in spans[:i]) for i in range(len(spans))]
        assert sum(c for _, c in spans) == job.groups[0]


def test_too_many_workgroups_are_refused():
    a = Buffer("a", 64)
    with pytest.raises(ValueError, match="expected 1 to 65535"):
        rms(a, a, groups=(recording.MAX_GROUPS + 1, 1, 1))


def test_text_shows_names_and_barriers():
    a, b, c = (Buffer(n, 64) for n in "abc")
    assert describe([rms(a, b), rms(b, c)]).splitlines() == [
        "  rms_norm 1x1x1 x=a weight=w y=b step_params=step n=16 eps=1e-06",
        "| rms_norm 1x1x1 x=b weight=w y=c step_params=step n=16 eps=1e-06",
    ]


def test_writes_to_other_columns_of_one_matrix_need_no_barrier():
    a, b, c = (Buffer(n, 64) for n in "abc")

    def columns(x, y, start, end):
        return replace(rms(x, y), columns=(start, end))

    assert barriers([columns(a, b, 0, 3), columns(a, b, 3, 4), columns(a, b, 2, 3)]) == [False, False, True]
    assert barriers([columns(a, b, 0, 2), columns(b, c, 2, 4)])[1] is True  # reads the whole of b
    assert barriers([columns(a, b, 0, 2), rms(a, b)])[1] is True
