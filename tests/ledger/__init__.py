"""Which test last ran when, on which sources, how long and with which verdict.

docs/decisions/0027-a-ledger-of-tests.md says why it is so. `plugin.py` writes a shard for each
pytest; `records.py` folds shards into tables; `sources.py` says what a test depends on; `due.py`
what is to run, `batches.py` runs it within a budget; `explore.py` goes round exploring tests.
"""
