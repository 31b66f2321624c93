# Databricks notebook source
# MAGIC %md
# MAGIC # The message archive: a log as a Delta table
# MAGIC
# MAGIC A broker forgets after three days. This notebook keeps its messages in a Delta table, asks
# MAGIC them by SQL, lets the log grow, adds only what is new, and looks back at how the table was.
# MAGIC
# MAGIC It needs `pip install "reput[delta]"` and no Spark, and runs as it is on Databricks and,
# MAGIC locally, with `python notebooks/message_archive.py`. Any other notebook reads the same
# MAGIC table with `spark.read.format("delta")`.

# COMMAND ----------

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(globals().get("__file__", os.path.join(os.getcwd(), "notebook"))).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import reput

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker of RocketMQ 5.3.3 wrote it. This is a copy, as it will grow.

# COMMAND ----------

WORK = Path(os.environ.get("REPUT_NOTEBOOK_WORK") or tempfile.mkdtemp(prefix="reput-notebook-"))
SOURCE = HERE.parent / "tests" / "golden" / "broker_clean_5.3.3.tar.xz"
shutil.rmtree(WORK / "broker_clean_5.3.3", ignore_errors=True)
subprocess.run(["tar", "-xJf", str(SOURCE), "-C", str(WORK)], check=True)
STORE, ARCHIVE = str(WORK / "broker_clean_5.3.3" / "input"), str(WORK / "archive")
shutil.rmtree(ARCHIVE, ignore_errors=True)

# COMMAND ----------
# MAGIC %md
# MAGIC ## Into the table
# MAGIC Each commit is one range of the log, and names it: whoever is killed and begins again adds
# MAGIC nothing twice.

# COMMAND ----------

first = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq="5.3.3")
print(f"exported {first.messages:,} messages")
before = DeltaTable(f"{ARCHIVE}/messages").version()

# COMMAND ----------
# MAGIC %md
# MAGIC ## By SQL

# COMMAND ----------

BY_TOPIC = """
    select topic, count(*) as messages, sum(size) as bytes, max("storeTimestamp") as newest
    from messages group by topic order by messages desc limit 5
"""
asked = QueryBuilder().register("messages", DeltaTable(f"{ARCHIVE}/messages"))
for row in pa.table(asked.execute(BY_TOPIC).read_all()).to_pylist():
    print(f"{row['topic']:<32} {row['messages']:>6,} messages {row['bytes']:>12,} bytes")

# COMMAND ----------
# MAGIC %md
# MAGIC ## The log grows
# MAGIC Three messages are appended as a broker would, and the export is called again: it adds these
# MAGIC three. A third call adds nothing.

# COMMAND ----------

with reput.open_writer(STORE, rocketmq="5.3.3") as writer:
    for number in range(3):
        writer.append(reput.Message("Orders", b"new", tags="paid", keys=f"o-{number}"))
second = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq="5.3.3")
third = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq="5.3.3")
print(f"added {second.messages:,} messages, then {third.messages:,}")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Looking back
# MAGIC The table as it was before, beside the table of today.

# COMMAND ----------

now, then = DeltaTable(f"{ARCHIVE}/messages"), DeltaTable(f"{ARCHIVE}/messages", version=before)
HOW_MANY = "select count(*) as many from messages"
counted = []
for table in (then, now):
    found = QueryBuilder().register("messages", table).execute(HOW_MANY).read_all()
    counted.append(pa.table(found)["many"][0].as_py())
    print(f"version {table.version()} has {counted[-1]:,} messages")
assert counted == [first.messages, first.messages + 3]

# COMMAND ----------
# MAGIC %md
# MAGIC ## Is it all there?
# MAGIC Counts, sums and CRCs of the table against those of the log.

# COMMAND ----------

compared = reput.verify_export(None, STORE, ARCHIVE, rocketmq="5.3.3")
print(compared.text())
assert compared.same

# COMMAND ----------
# MAGIC %md
# MAGIC ## In pictures

# COMMAND ----------

page = WORK / "report.html"
page.unlink(missing_ok=True)
print(reput.report(STORE, str(page), rocketmq="5.3.3").text())
if "displayHTML" in globals():
    displayHTML(page.read_text())  # noqa: F821
