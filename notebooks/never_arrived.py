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

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(globals().get("__file__", os.path.join(os.getcwd(), "notebook"))).resolve().parent
sys.path.insert(0, str(HERE.parent))

import reput

# COMMAND ----------
# MAGIC %md
# MAGIC ## Two stores
# MAGIC Both were written by live brokers: one of 5.2.0 that has skipped deliveries, one of 5.3.3
# MAGIC whose producers have committed, rolled back and forgotten transactions.

# COMMAND ----------

WORK = Path(os.environ.get("REPUT_NOTEBOOK_WORK") or tempfile.mkdtemp(prefix="reput-notebook-"))
for name in ("skipped_5.2.0", "live_5.3.3"):
    archive = HERE.parent / "tests" / "store_format" / "fate" / "stores" / f"{name}.tar.xz"
    (WORK / name).mkdir(exist_ok=True)
    subprocess.run(["tar", "-xJf", str(archive), "-C", str(WORK / name)], check=True)
SKIPPED, LIVED = str(WORK / "skipped_5.2.0" / "store"), str(WORK / "live_5.3.3" / "store")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Delayed messages that never arrived

# COMMAND ----------

with reput.open_store(SKIPPED) as store:
    delayed = store.delayed(everything=True)
print(dict(Counter(row.state for row in delayed)))
never = [row for row in delayed if row.state == "never delivered"]
for row in never[:5]:
    print(f"topic {row.topic}, level {row.level}, put as {row.unique_key}: never delivered")
assert never

# COMMAND ----------
# MAGIC %md
# MAGIC ## Half messages without an end
# MAGIC `pending`: the broker would still ask the producer; `abandoned`: it has gone past it, and
# MAGIC will not ask again; `discarded`: it has asked often enough and has given up.

# COMMAND ----------

with reput.open_store(LIVED) as store:
    transactions = store.transactions(everything=True)
print(dict(Counter(row.state for row in transactions)))
for row in transactions:
    if row.state in ("pending", "abandoned", "discarded"):
        print(f"topic {row.topic}: {row.state}, checked {row.checks} times, {row.unique_key}")

# COMMAND ----------
# MAGIC %md
# MAGIC ## In pictures
# MAGIC The section "Half and delayed messages" has the counts, and under them who waits. `reput
# MAGIC deliver-delayed --missed` and `reput resolve-transactions` deliver them after all.

# COMMAND ----------

for name, folder in (("skipped", SKIPPED), ("lived", LIVED)):
    page = WORK / f"{name}.html"
    page.unlink(missing_ok=True)
    reput.report(folder, str(page))
    print(f"picture: {page}")
    if "displayHTML" in globals():
        displayHTML(page.read_text())  # noqa: F821
