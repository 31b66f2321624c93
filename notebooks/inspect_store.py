# Databricks notebook source
# MAGIC %md
# MAGIC # What is in a RocketMQ store?
# MAGIC
# MAGIC A store is a folder of files that only a broker used to read. This notebook asks one
# MAGIC without a broker: which topics and queues it has, what was put when, one message by its
# MAGIC key, and at the end one page of pictures that can be sent to somebody. Nothing of the
# MAGIC store is changed.
# MAGIC
# MAGIC Locally it runs with `python notebooks/inspect_store.py`; on Databricks give its widget
# MAGIC `work` a folder in a volume first, which all machines see.

# COMMAND ----------

from helpers import Notebook

import reput

here = Notebook(globals())

# COMMAND ----------
# MAGIC %md
# MAGIC ## The store
# MAGIC A live broker of RocketMQ 5.3.3 wrote it. For your own store, set `STORE` to its folder or
# MAGIC URL (`/Volumes/...`, `s3://...`). You need no settings: the store's files have them.

# COMMAND ----------

STORE = str(here.bundled("golden/broker_clean_5.3.3.tar.xz") / "broker_clean_5.3.3" / "input")

# COMMAND ----------
# MAGIC %md
# MAGIC ## Topics and queues
# MAGIC From the queues' files, in milliseconds.

# COMMAND ----------

store = reput.open_store(STORE)
here.table(
    ("topic", "kind", "queues", "messages"),
    [(each.topic, each.kind, each.queues, each.messages) for each in store.topics()],
)

# COMMAND ----------
# MAGIC %md
# MAGIC ## What producers put, by topic
# MAGIC The log is read once. It also has what no queue shows.

# COMMAND ----------

here.table(
    ("topic", "messages", "bytes"),
    [(each.topic, each.messages, each.bytes) for each in store.stats(("topic",))],
)

# COMMAND ----------
# MAGIC %md
# MAGIC ## One message
# MAGIC The first message of the store that has a unique key; then the same message by that key,
# MAGIC as an operator finds it.

# COMMAND ----------

first = next(message for message in store.messages() if message.unique_key)
(found, *_) = store.query(first.topic, first.unique_key)
here.table(
    ("topic", "queue", "position", "unique key"),
    [(found.topic, found.queue_id, found.queue_offset, found.unique_key)],
)
assert found.physical_offset == first.physical_offset
store.close()

# COMMAND ----------
# MAGIC %md
# MAGIC ## All of it in pictures
# MAGIC One HTML file that needs no network: messages over time, queues, sizes, the index, damage,
# MAGIC the disk; a table under each picture.

# COMMAND ----------

page = here.page("report.html")
written = reput.report(here.spark(), STORE, str(page))
print(written.verdict)
here.show(page)
assert written.sound
here.close()
