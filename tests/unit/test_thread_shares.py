"""Shares of the threads of a process."""

import pytest

from covey.thread_shares import ThreadShares


@pytest.mark.parametrize("threads", [1, 4, 16, 64, 256, 1024])
def test_each_kind_has_a_share_and_threads_are_left_for_refusals(threads: int) -> None:
    shares = ThreadShares.of(threads)
    assert 1 <= shares.requests <= shares.threads
    assert min(shares.bodies, shares.bodies_of_project, shares.agent_bodies) >= 1
    assert min(shares.downloads, shares.agent_downloads, shares.identity) >= 1
    if threads >= 8:
        assert shares.requests < shares.threads


@pytest.mark.parametrize("threads", [16, 64, 256, 1024])
def test_all_that_waits_long_leaves_threads_for_other_requests(threads: int) -> None:
    shares = ThreadShares.of(threads)
    sending = shares.bodies + shares.agent_bodies
    receiving = shares.downloads + shares.agent_downloads + shares.streams
    assert sending + receiving + shares.identity < shares.requests
