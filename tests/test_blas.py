"""One BLAS thread for small linear algebra, and as many as before afterwards, whichever threads overlap."""

import threading

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from losslens.blas import one_thread


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_two_threads_that_overlap_leave_blas_as_it_was():
    """The first leaves before the second: had each restored what it found, or the last one, one thread would stay."""
    np.ones((2, 2)) @ np.ones((2, 2))  # BLAS is loaded
    second_is_in, first_is_out = threading.Event(), threading.Event()

    def second():
        with one_thread():
            second_is_in.set()
            first_is_out.wait(10)

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        other = threading.Thread(target=second)
        with one_thread(), one_thread():  # nested, too
            assert threads() == [1] * len(before)
            other.start()
            assert second_is_in.wait(10)
        first_is_out.set()
        other.join()
        assert threads() == before == [2] * len(before)


def test_an_error_lifts_the_limit():
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        try:
            with one_thread():
                raise KeyError("inside")
        except KeyError:
            pass
        assert threads() == before
