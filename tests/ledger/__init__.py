"""Which long test last ran when, on which sources, how long and with which verdict.

docs/decisions/0027-a-ledger-of-tests.md says why it is so.
"""
