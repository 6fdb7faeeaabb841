"""Parallel workers: tests that share a fitted model run in one of them."""

from fits import every_method
from workers import scope_of


@every_method
def test_the_tests_of_one_method_share_a_worker(method, request):
    assert scope_of(request.node.nodeid) == method


def test_the_other_tests_of_one_file_share_a_worker(request):
    assert scope_of(request.node.nodeid) == "tests/test_workers.py"
