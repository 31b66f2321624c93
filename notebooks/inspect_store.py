# Databricks notebook source
# MAGIC %md
# MAGIC # What is in a RocketMQ store?
# MAGIC
# MAGIC A store is a folder of files that only a broker used to read. This notebook asks one
# MAGIC without a broker: which topics and queues it has, what was put when, one message by its
# MAGIC key, and at the end one page of pictures that can be sent to somebody. Nothing of the
# MAGIC store is changed.
# MAGIC
# MAGIC It runs as it is on Databricks and, locally, with `python notebooks/inspect_store.py`.

# COMMAND ----------

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(globals().get("__file__", os.path.join(os.getcwd(), "notebook"))).resolve().parent
sys.path.insert(0, str(HERE.parent))

import reput

# COMMAND ----------
# MAGIC %md
# MAGIC On Databricks `spark` is there. Elsewhere we start a local session; only the check of the
# MAGIC log needs it.

# COMMAND ----------

if "spark" not in globals():
    from contextlib import ExitStack

    from reput.jobs.spark.session import local_session

    at_exit = ExitStack()
    spark = at_exit.enter_context(local_session("local[2]"))

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker of RocketMQ 5.3.3 wrote it. For your own store set `STORE` to its folder or
# MAGIC URL (`/Volumes/...`, `s3://...`): no setting is needed for what its files tell.

# COMMAND ----------

WORK = Path(os.environ.get("REPUT_NOTEBOOK_WORK") or tempfile.mkdtemp(prefix="reput-notebook-"))
ARCHIVE = HERE.parent / "tests" / "golden" / "broker_clean_5.3.3.tar.xz"
subprocess.run(["tar", "-xJf", str(ARCHIVE), "-C", str(WORK)], check=True)
STORE = str(WORK / "broker_clean_5.3.3" / "input")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Topics and queues
# MAGIC From the queues' files, in milliseconds.

# COMMAND ----------

store = reput.open_store(STORE)
for topic in store.topics():
    print(f"{topic.topic:<32} {topic.kind:<8} {topic.queues} queues, {topic.messages:,} messages")

# COMMAND ----------
# MAGIC %md
# MAGIC ## What was put, by topic
# MAGIC The log is read once: it also has what no queue shows.

# COMMAND ----------

for row in store.stats(("topic",)):
    print(f"{row.topic:<32} {row.messages:>6,} messages {row.bytes:>12,} bytes")

# COMMAND ----------
# MAGIC %md
# MAGIC ## One message
# MAGIC The first message of the store that has a unique key; then the same message by that key,
# MAGIC as an operator finds it.

# COMMAND ----------

first = next(message for message in store.messages() if message.unique_key)
(found, *_) = store.query(first.topic, first.unique_key)
print(f"{found.topic}, queue {found.queue_id}, position {found.queue_offset}: {found.unique_key}")
assert found.physical_offset == first.physical_offset
store.close()

# COMMAND ----------
# MAGIC %md
# MAGIC ## All of it in pictures
# MAGIC One HTML file without anything from a network: messages over time, queues, sizes, the
# MAGIC index, damage, the disk; a table under each picture.

# COMMAND ----------

page = WORK / "report.html"
page.unlink(missing_ok=True)
written = reput.report(spark, STORE, str(page))
print(written.text())
assert written.sound
if "displayHTML" in globals():
    displayHTML(page.read_text())  # noqa: F821

# COMMAND ----------

if "at_exit" in globals():
    at_exit.close()
