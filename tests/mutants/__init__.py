"""Mutation testing: small errors are put into the source one at a time; tests that notice an error "kill" the mutant.

`python -m tests.mutants` (or `make mutants`) draws a seeded sample of mutants from the rooms that compute, runs for
each the tests that reach it, and prints how many were killed. `sample.py` has the mutations, `reach.py` finds which
tests execute which statements (once; later only for tests that have changed), `run.py` runs tests against a mutant in
a fork, `afresh.py` those that need a process of their own, `equivalent.toml` lists mutants that no test can kill, with
the reason.
"""
