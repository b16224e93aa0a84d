from __future__ import annotations

from threadpoolctl import threadpool_info, threadpool_limits

from supac.search.algorithm import one_thread


def threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_blas_has_one_thread_within_and_those_of_before_after() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_thread():
            assert threads() == {1}
        assert threads() == before == {2}
