# Databricks notebook source
# MAGIC %md
# MAGIC # Which delayed and half messages never arrived?
# MAGIC
# MAGIC A delayed message waits in the log until it is due, a half message until its producer
# MAGIC commits it. Brokers of 5.0.0 to 5.3.2 go on where a delivery fails (RocketMQ #9248): such
# MAGIC a message never arrives, and nothing says so. The log still has it. This notebook finds
# MAGIC them.
# MAGIC
# MAGIC It needs no Spark, and runs as it is on Databricks and, locally, with `python
# MAGIC notebooks/never_arrived.py`.

# COMMAND ----------

from collections import Counter

from helpers import Notebook

import reput

here = Notebook(globals())

# COMMAND ----------
# MAGIC %md
# MAGIC ## Two stores
# MAGIC Both were written by live brokers: one of 5.2.0 that has skipped deliveries, one of 5.3.3
# MAGIC whose producers have committed, rolled back and forgotten transactions.

# COMMAND ----------

SKIPPED, LIVED = (
    str(here.bundled(f"store_format/fate/stores/{name}.tar.xz", name) / "store")
    for name in ("skipped_5.2.0", "live_5.3.3")
)

# COMMAND ----------
# MAGIC %md
# MAGIC ## Delayed messages that never arrived

# COMMAND ----------

with reput.open_store(SKIPPED) as store:
    delayed = store.delayed(everything=True)
here.table(("state", "delayed messages"), list(Counter(row.state for row in delayed).items()))
never = [row for row in delayed if row.state == "never delivered"]
here.table(
    ("topic", "level", "unique key"), [(row.topic, row.level, row.unique_key) for row in never]
)
assert never

# COMMAND ----------
# MAGIC %md
# MAGIC ## Half messages without an end
# MAGIC `pending`: the broker would still ask the producer; `abandoned`: it has gone past it, and
# MAGIC will not ask again; `discarded`: it has asked often enough and has given up.

# COMMAND ----------

with reput.open_store(LIVED) as store:
    transactions = store.transactions(everything=True)
counts = Counter(row.state for row in transactions)
here.table(("state", "transactions"), list(counts.items()))
here.table(
    ("topic", "state", "checks", "unique key"),
    [(row.topic, row.state, row.checks, row.unique_key) for row in transactions
     if row.state in ("pending", "abandoned", "discarded")],
)  # fmt: skip

# COMMAND ----------
# MAGIC %md
# MAGIC ## In pictures
# MAGIC The section "Half and delayed messages" has the counts, and under them who waits. `reput
# MAGIC deliver-delayed --missed` and `reput resolve-transactions` deliver them after all.

# COMMAND ----------

for name, folder in (("skipped", SKIPPED), ("lived", LIVED)):
    page = here.page(f"{name}.html")
    reput.report(folder, str(page))
    here.show(page)
