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

import shutil

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from helpers import Notebook

import reput

here = Notebook(globals())

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker of RocketMQ 5.3.3 wrote it. This is a copy, as it will grow. The export leaves
# MAGIC out the broker's own topics.

# COMMAND ----------

shutil.rmtree(here.work / "broker_clean_5.3.3", ignore_errors=True)
STORE = str(here.bundled("golden/broker_clean_5.3.3.tar.xz") / "broker_clean_5.3.3" / "input")
ARCHIVE = str(here.work / "archive")
shutil.rmtree(ARCHIVE, ignore_errors=True)
RELEASE = "5.3.3"  # by whose rules the log grows below

# COMMAND ----------
# MAGIC %md
# MAGIC ## Into the table
# MAGIC Each commit is one range of the log, and names it: whoever is killed and begins again adds
# MAGIC nothing twice.

# COMMAND ----------

first = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq=RELEASE)
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
found = pa.table(asked.execute(BY_TOPIC).read_all()).to_pylist()
here.table(
    ("topic", "messages", "bytes", "newest"),
    [(row["topic"], row["messages"], row["bytes"], row["newest"]) for row in found],
)

# COMMAND ----------
# MAGIC %md
# MAGIC ## The log grows
# MAGIC Three messages are appended as a broker would, and the export is called again: it adds these
# MAGIC three. A third call adds nothing.

# COMMAND ----------

with reput.open_writer(STORE, rocketmq=RELEASE) as writer:
    for number in range(3):
        writer.append(reput.Message("Orders", b"new", tags="paid", keys=f"o-{number}"))
second = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq=RELEASE)
third = reput.export(None, STORE, ARCHIVE, format="delta", rocketmq=RELEASE)
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
here.table(("version", "messages"), [(then.version(), counted[0]), (now.version(), counted[1])])
assert counted == [first.messages, first.messages + 3]

# COMMAND ----------
# MAGIC %md
# MAGIC ## Is it all there?
# MAGIC Counts, sums and CRCs of the table against those of the log.

# COMMAND ----------

compared = reput.verify_export(None, STORE, ARCHIVE, rocketmq=RELEASE)
print(compared.text())
assert compared.same

# COMMAND ----------
# MAGIC %md
# MAGIC ## In pictures

# COMMAND ----------

page = here.page("report.html")
print(reput.report(STORE, str(page), rocketmq=RELEASE).verdict)
here.show(page)
